"""Evolvability ES as an MPI program.

The map of the package. A module or folder imports only from lines below its own.

    cli/             the command `ees-mpi`: options from typed signatures; parses, calls, prints
    analysis/        offline: reads run files, never starts MPI
    commands/        the options of commands (`requests`, `arguments`) and their work; Python: `api`
    ask_tell.py      `Strategy`: the algorithm for a loop that the user writes
    runs/            the life of a run: start or reopen it, show its progress
    foreign/         policies of other programs: npz, torch, Stable-Baselines3; nothing is unpickled
    training.py      one generation (`EvolutionJob.advance`), and the loop over generations (`train`)
    maml/            the second method, MAML with TRPO; its settings are in config/
    update.py        the update of an evolution strategy, `ask` and `tell`; no other module computes one
    generation/      the parts that the generations of all methods share: state, evaluation, rows for the ranks, results
    run/             the list of the arrays of a run file (`arrays`), what they mean (`file`), a new or continued one
    config/          the typed config, its keys, its changes; the method of evolution strategies; sweeps
    metrics.py       one table: name, meaning, what it needs, how it is computed, logged or not
    spread.py        the formulas of the metrics, on arrays
    strategy/        the algorithm: objectives, populations, optimizers, kernel sums, stochastic computation graphs
    envs.py          registers our robots with Gymnasium when it is imported
    tasks/           interference, custom, locomotion, and one folder per engine
    policies.py      networks
    noise.py         random streams, and the noise table
    ranks/           one process, or MPI; the only place that imports mpi4py
    outcomes.py      draws and outcomes of a generation; the types of their arrays
    store/           the run file: named arrays, attributes, journal, lock; knows nothing of the rooms above
    registry/        families of parts, found by name; the loader of plugins
    machine.py memory.py files.py                     threads, CPU features, fingerprint; free memory; output files
    terminal.py      messages to the user
    errors.py version.py                              the errors, each with its exit code; the version
"""

import importlib
from typing import TYPE_CHECKING, Any

from ees_mpi.version import __version__

if TYPE_CHECKING:
    from ees_mpi.ask_tell import Strategy
    from ees_mpi.commands.api import adapt, load_config, measure, presets, sample, signal, train
    from ees_mpi.commands.shelf import shelf
    from ees_mpi.errors import ConfigError, EesError, Interrupted, LaunchError, RunFileError, TaskError, TrustError
    from ees_mpi.run.file import Run, open_run
    from ees_mpi.strategy.objectives.arrays import maxent_weights, maxvar_weights

# The public names of each module. They are imported when used, so that `ees-mpi` can set thread counts before
# anything loads numpy, and so that reading a run needs no MPI.
_NAMES = {
    "errors": ("ConfigError", "EesError", "Interrupted", "LaunchError", "RunFileError", "TaskError", "TrustError"),
    "run.file": ("Run", "open_run"),
    "commands.api": ("adapt", "load_config", "measure", "presets", "sample", "signal", "train"),
    "ask_tell": ("Strategy",),
    "strategy.objectives.arrays": ("maxent_weights", "maxvar_weights"),
    "commands.shelf": ("shelf",),
}

__all__ = [
    "ConfigError",
    "EesError",
    "Interrupted",
    "LaunchError",
    "Run",
    "RunFileError",
    "Strategy",
    "TaskError",
    "TrustError",
    "__version__",
    "adapt",
    "load_config",
    "maxent_weights",
    "maxvar_weights",
    "measure",
    "open_run",
    "presets",
    "sample",
    "shelf",
    "signal",
    "train",
]


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names:
            return getattr(importlib.import_module(f"ees_mpi.{module}"), name)
    raise AttributeError(f"module 'ees_mpi' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
