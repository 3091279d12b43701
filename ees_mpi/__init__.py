"""Evolvability ES as an MPI program.

The map of the package. A module or folder imports only from lines below its own.

    cli/             the command `ees-mpi`: options from typed signatures; parses, calls, prints
    analysis/        offline: reads run files, never starts MPI
    commands/        the options of commands (`requests`, `arguments`) and their work; Python: `api`
    ask_tell.py      `Strategy`: the algorithm for a loop that the user writes
    run/             the one loop, and what surrounds it: evaluators, sinks, sessions, starting points, the run file
    maml/            the second method, MAML with TRPO: its ask, its tell, its evaluators; its settings are in config/
    foreign/         policies of other programs: npz, torch, Stable-Baselines3; nothing is unpickled
    config/          the typed config, its keys, its changes; the method of evolution strategies; sweeps
    metrics.py       one table: name, meaning, what it needs, how it is computed, logged or not
    spread.py        the formulas of the metrics, on arrays
    strategy/        the algorithm: ask and tell, objectives, populations, optimizers, stochastic computation graphs
    envs.py          registers our robots with Gymnasium when it is imported
    tasks/           interference, custom, locomotion, and one folder per engine
    generation.py    the data of a generation: state, draw, work, outcomes, record; how ranks gather
    policies.py      networks
    noise.py         random streams, and the noise table
    ranks/           one process, or MPI; the only place that imports mpi4py
    store/           the run file: named arrays, attributes, journal, lock; knows nothing of the rooms above
    registry/        families of parts, found by name; the loader of plugins
    machine.py memory.py files.py arrays.py           threads, CPU features, fingerprint; free memory; output files
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
