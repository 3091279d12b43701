"""The commands as Python functions: `ees_mpi.train` and others. They run the same code as `ees-mpi`.

The arguments of each are the fields of its request. Under mpirun or srun all ranks call them together.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ees_mpi import ranks
from ees_mpi.commands.arguments import function, path_of
from ees_mpi.commands.requests import (
    AdaptRequest,
    MeasureRequest,
    SampleRequest,
    SignalRequest,
    TrainRequest,
    check_same,
)
from ees_mpi.errors import Interrupted
from ees_mpi.registry.toml import settings_of, source_of
from ees_mpi.terminal import say

if TYPE_CHECKING:
    from ees_mpi.commands.adapt import Adaptation
    from ees_mpi.commands.signal import Signal
    from ees_mpi.config import Config
    from ees_mpi.run.file import Run


@function(TrainRequest)
def train(request: TrainRequest) -> "Run":
    """Train a config, as `ees-mpi train` does, and return the open run file on every rank.

    An interrupt of the keyboard stops the run, saves its state, and raises a KeyboardInterrupt. A signal and
    `max_hours` raise an Interrupted.
    """
    from ees_mpi.commands.train import job_of
    from ees_mpi.run.loop import UserSink

    watch = UserSink(request.on_generation) if request.on_generation else None
    work = job_of(request, watch)

    def job(world: "ranks.Ranks") -> "Run":
        check_same(world, request, "seed", "generations", "settings", "config", "out")
        try:
            path = work(world)
        except Interrupted as error:
            error.by_keyboard = world.any(world.stopped_by == "SIGINT")
            raise
        return _opened(world, path, trust=True)  # all of its code has just run

    try:
        return ranks.call("train", job, trains=True)
    except Interrupted as error:
        stop = error
    # Raised here, so that the traceback of another exception does not show the Interrupted as well.
    if watch and watch.error:
        raise watch.error
    raise KeyboardInterrupt(str(stop)) if stop.by_keyboard else stop


@function(SampleRequest)
def sample(request: SampleRequest) -> "Run":
    """Evaluate new mutations of a trained mean, as `ees-mpi sample` does; return their open file."""
    from ees_mpi.commands.offspring import sample

    return ranks.call("sample", lambda world: _opened(world, sample(world, request, say), request.trust))


@function(AdaptRequest)
def adapt(request: AdaptRequest) -> "Adaptation":
    """Adapt a run to a direction and score the result, as `ees-mpi adapt` does; return the result on every rank."""
    from ees_mpi.commands.adapt import adapt, read_adaptation

    def job(world: "ranks.Ranks") -> "Adaptation":
        written = adapt(world, request, say)
        with world.together():
            return read_adaptation(written)

    return ranks.call("adapt", job)


@function(MeasureRequest)
def measure(request: MeasureRequest) -> "Run":
    """Measure how evolvable a policy is, as `ees-mpi measure` does; return the open file on every rank."""
    from ees_mpi.commands.offspring import measure

    def job(world: "ranks.Ranks") -> "Run":
        return _opened(world, measure(world, request, lambda line: None), request.trust)

    return ranks.call("measure", job)


@function(SignalRequest)
def signal(request: SignalRequest) -> "list[Signal]":
    """Return the signal of some generations of a run, as `ees-mpi signal` does, on every rank."""
    from ees_mpi.commands.signal import signal

    return ranks.call("signal", lambda world: signal(world, request))


def load_config(
    source: "str | os.PathLike[str] | Mapping[str, Any] | Config",
    settings: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> "Config":
    """Return the whole config of a preset, a .toml file, a run file, an exported policy, a dict or a Config.

    settings: change it

    trust: the config may run code that a run file or policy names, as with `open_run`
    """
    from ees_mpi.run.start import load

    path = path_of(source) if isinstance(source, str) else source
    return load(source_of(path), settings_of(settings), trust)


def presets() -> dict[str, str]:
    """Return the names of all presets, each with a sentence about it."""
    from ees_mpi import config

    return {name: config.read_source(name).split("\n")[0].lstrip("# ") for name in config.preset_names()}


def _opened(world: "ranks.Ranks", path: Path, trust: bool) -> "Run":
    """Open the run file of a call on every rank."""
    from ees_mpi.run.file import open_run

    with world.together():
        return open_run(path, trust)
