"""The commands as Python functions: `ees_mpi.train` and others. They run the same code as `ees-mpi`.

Under mpirun or srun all ranks call them together.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ees_mpi.commands.arguments import (
    LARGEST,
    computing,
    file_name,
    finite,
    optional,
    path_of,
    policy_source,
    positive,
    positives,
    settings_of,
    source_of,
    whole,
)
from ees_mpi.errors import ConfigError, Interrupted
from ees_mpi.registry import beside
from ees_mpi.terminal import say

if TYPE_CHECKING:
    from ees_mpi.commands.adapt import Adaptation
    from ees_mpi.config import Config
    from ees_mpi.generation.results import Record
    from ees_mpi.ranks import Ranks
    from ees_mpi.store.reader import Run

T = TypeVar("T")


def train(
    config: "str | os.PathLike[str] | Mapping[str, Any] | Config | None" = None,
    out: str | os.PathLike[str] | None = None,
    *,
    task: Callable[..., Any] | None = None,
    parameters: int | None = None,
    behavior_dim: int | None = None,
    batch: bool | None = None,
    mean: Any = None,
    keep_source: bool = False,
    settings: Mapping[str, Any] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    start: Any = None,
    layers: Sequence[str] = (),
    normaliser: str | os.PathLike[str] | None = None,
    activation: str | Sequence[str] = (),
    on_generation: "Callable[[Record], object] | None" = None,
    max_hours: float | None = None,
    trust: bool = False,
    force: bool = False,
) -> "Run":
    """Train a config, as `ees-mpi train` does, and return the open run file on every rank.

    config: the name of a preset, the path of a .toml file or of a run file, a dict, or a Config
    out: the run file; needed for a dict, a Config and a task; for a run file the default is that file
    task: a function in place of the config's task: f(z) returns a behaviour, or (behaviour, fitness); default: MaxEnt
    parameters, behavior_dim: the lengths of z and of a behaviour, for `task`; a run file knows them
    batch: `task` gets several individuals, f(z[n, D]); mean: the first mean [D] for `task`  [default: zeros]
    keep_source: keep the source of `task` in the file, to read; nothing runs it
    settings: keys to change, such as {"population.std": 0.05, "run.seed": 3}
    resume: continue an existing file, or start one; overwrite: start again in place of an existing file
    start: RUN.h5, RUN.h5@GENERATION, or any policy that `measure` takes; layers, normaliser, activation: as there
    on_generation: called on rank 0 with the record of each committed generation; if it raises, the run stops, its
        state is saved, and the exception is raised here (on other ranks: an Interrupted)
    max_hours: stop after so many hours, with an Interrupted; the state is saved
    trust: run the code that a run file names; force: ignore the lock of another writer if there are no locks

    An interrupt of the keyboard stops the run, saves its state, and raises a KeyboardInterrupt.
    """
    if resume and overwrite:
        raise ConfigError("resume and overwrite exclude each other")
    if on_generation is not None and not callable(on_generation):
        raise ConfigError(f"on_generation: expected a function, got {on_generation!r:.80}")
    max_hours = optional(positive, "max_hours", max_hours)
    changes = settings_of(settings)
    if task is not None:
        keys = {"parameters": parameters, "behavior_dim": behavior_dim, "batch": batch}
        with computing(trust):
            from ees_mpi.commands.config import with_function

            if out is None and config is not None and isinstance(known := source_of(config), Path):
                out = known
            config = with_function(config, task, keys, mean, keep_source)
    elif config is None:
        raise ConfigError("config: expected a preset, a path, a dict or a Config; or task=, a function")
    source, target = source_of(config), optional(file_name, "out", out)
    if isinstance(source, str) and source.endswith(".toml"):
        beside(source)  # on every rank: rank 0 alone reads the file
    begin = None if start is None else policy_source("start", start, layers, normaliser, activation)
    by_keyboard = False
    with computing(trust):
        from ees_mpi import ranks
        from ees_mpi.runs.session import Callback, run_session
        from ees_mpi.runs.start import TrainRequest

        request = TrainRequest(source, changes, target, begin, resume, overwrite, force)
        callback = Callback(on_generation)  # on all ranks, because they check together whether it has raised

        def job(world: "Ranks") -> "Run":
            nonlocal by_keyboard
            try:
                path = run_session(world, request.prepare, say, max_hours, callback)
            except Interrupted:
                by_keyboard = world.any(world.stop_signal == "SIGINT")
                raise
            return open_on_all_ranks(world, path, trust)

        try:
            return ranks.call("train", job, trains=True)
        except Interrupted as error:
            if not by_keyboard and not callback.error:
                raise
            message = str(error)
    # Raised here, so that the traceback does not show the Interrupted as well.
    raise callback.error or KeyboardInterrupt(message)


def sample(
    run: "str | os.PathLike[str] | Run",
    count: int,
    out: str | os.PathLike[str] | None = None,
    *,
    generation: int | None = None,
    std: float | None = None,
    component: int | None = None,
    settings: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    trust: bool = False,
) -> "Run":
    """Evaluate `count` new offspring of a trained mean, as `ees-mpi sample` does; return their open file.

    generation: the mean(s) before this one, negative from the end  [default: the state after the last one]
    std: of the offspring  [default: the run's]; component: of a mixture  [default: all of them]
    settings: another task.engine or task.device; out: [default: RUN-sample.h5]; trust: run code that the file names
    """
    path = path_of(run)
    count, component = whole("count", count, 2), optional(whole, "component", component, 0)
    generation = optional(whole, "generation", generation, -LARGEST)
    std = optional(positive, "std", std)
    target, changes = optional(file_name, "out", out), settings_of(settings)

    def job(world: "Ranks") -> "Run":
        from ees_mpi.commands.offspring import SampleRequest, sample

        request = SampleRequest(path, count, generation, std, component, changes, target, overwrite)
        return open_on_all_ranks(world, sample(world, request, say), trust)

    return call_on_run("sample", trust, job)


def adapt(
    run: "str | os.PathLike[str] | Run",
    direction: str | float,
    out: str | os.PathLike[str] | None = None,
    *,
    mutations: int | None = None,
    evaluations: int = 10,
    generation: int | None = None,
    std: float | None = None,
    settings: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    trust: bool = False,
) -> "Adaptation":
    """Adapt a run to a direction and score the result, as `ees-mpi adapt` does; return the result on every rank.

    direction: "left", "right", or an angle in degrees from +x towards +y
    mutations: the number of mutations  [default: 40]; evaluations: the number of rollouts that score the result
    generation, std, settings, trust: as in `sample`; out: [default: RUN-adapt-DIRECTION.h5]
    """
    path, target, changes = path_of(run), optional(file_name, "out", out), settings_of(settings)
    wanted = direction if isinstance(direction, str) else f"{finite('direction', direction):g}"
    mutations, evaluations = optional(whole, "mutations", mutations, 2), whole("evaluations", evaluations, 1, 10**6)
    generation = optional(whole, "generation", generation, -LARGEST)
    std = optional(positive, "std", std)

    def job(world: "Ranks") -> "Adaptation":
        from ees_mpi.commands.adapt import AdaptRequest, adapt, read_adaptation

        request = AdaptRequest(path, wanted, mutations, evaluations, generation, std, changes, target, overwrite)
        written = adapt(world, request, say)
        with world.together():
            return read_adaptation(written)

    return call_on_run("adapt", trust, job)


def measure(
    policy: Any,
    task: str | None = None,
    std: float | Sequence[float] = (0.01, 0.02, 0.05),
    count: int = 1000,
    out: str | Path = "measure.h5",
    settings: Mapping[str, Any] | None = None,
    layers: Sequence[str] = (),
    normaliser: str | Path | None = None,
    activation: str | Sequence[str] = (),
    label: str = "",
    overwrite: bool = False,
    starts: int | None = None,
) -> "Run":
    """Measure a policy as `ees-mpi measure` does, and return the open file; under mpirun all ranks call it.

    policy: a file, "module:function", a function, a torch module, or named arrays
    layers, normaliser, activation: as the options of `ees-mpi measure`
    settings: changes of the config, {"task.steps": 100}
    starts: the behaviour of each offspring from so many unseen starts, run["behavior_by_start"]
    """
    stds, changes, count = positives("std", std), settings_of(settings), whole("count", count, 2)
    target, source = file_name("out", out), None if task is None else str(file_name("task", task))
    given = policy_source("policy", policy, layers, normaliser, activation)
    starts = optional(whole, "starts", starts, 2)
    with computing(False):
        from ees_mpi import ranks
        from ees_mpi.commands.offspring import MeasureRequest, measure

        request = MeasureRequest(given, stds, source, count, changes, str(label), target, overwrite, starts)

        def job(world: "Ranks") -> "Run":
            measure(world, request, lambda line: None)
            return open_on_all_ranks(world, target, True)

        return ranks.call("measure", job)


def load_config(
    source: "str | os.PathLike[str] | Mapping[str, Any] | Config", settings: Mapping[str, Any] | None = None
) -> "Config":
    """Return the whole config of a preset, a .toml file, a run file, a dict or a Config, changed by `settings`."""
    from ees_mpi.runs.start import load

    return load(source_of(source), settings_of(settings))


def presets() -> dict[str, str]:
    """Return the names of all presets, each with a sentence about it."""
    from ees_mpi import config

    return {name: config.read_source(name).split("\n")[0].lstrip("# ") for name in config.preset_names()}


def open_on_all_ranks(world: "Ranks", path: Path, trust: bool) -> "Run":
    """Open a run file on every rank."""
    from ees_mpi.store.reader import open_run

    with world.together():
        return open_run(path, trust)


def call_on_run(name: str, trust: bool, job: "Callable[[Ranks], T]") -> T:
    """Run the job of the function `name` on all ranks."""
    with computing(trust):
        from ees_mpi import ranks

        return ranks.call(name, job)
