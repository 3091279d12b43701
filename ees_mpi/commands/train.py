"""`ees-mpi train`: the request becomes a session of training."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ees_mpi.commands.requests import TrainRequest, changes_of, policy_of
from ees_mpi.commands.shelf import check_no_mean
from ees_mpi.config import Config
from ees_mpi.errors import ConfigError
from ees_mpi.ranks import Ranks
from ees_mpi.registry.search import FOLDERS, beside
from ees_mpi.runs import session
from ees_mpi.runs.loops import sections_of
from ees_mpi.runs.session import Callback
from ees_mpi.runs.start import RunToTrain, stall_minutes
from ees_mpi.tasks.function import give

OF_TASK = ("parameters", "behavior_dim", "batch", "mean", "keep_source")  # arguments that belong to `task`


def job_of(request: TrainRequest, callback: Callback | None = None) -> Callable[[Ranks], Path]:
    """Return the job that trains on all ranks, and returns the path of the run file."""
    if request.resume and request.overwrite:
        raise ConfigError("resume and overwrite exclude each other")
    source: Any = request.config
    out = None if request.out is None else Path(request.out)
    if request.task is not None:
        if out is None and isinstance(source, Path):
            out = source
        sections = sections_of(source)
        before, own = sections.get("task", {}), ("parameters", "behavior_dim", "batch")
        known = {key: before[key] for key in own if before.get("name") == "function" and key in before}
        known |= {key: value for key in own if (value := getattr(request, key)) is not None}
        function = give(request.task, request.mean, request.keep_source)
        source = {**sections, "task": {"name": "function", **known, **function}}
    elif given := [name for name in OF_TASK if getattr(request, name) is not getattr(TrainRequest, name)]:
        raise ConfigError(f"{given[0]}: it describes the function of task=, which is not given; expected task=, too")
    elif isinstance(source, str):
        if check_no_mean(source).endswith(".toml"):
            beside(source)  # on every rank: rank 0 alone reads the file
    elif isinstance(source, Config):
        FOLDERS.extend(source.folders)
    elif source is None:
        raise ConfigError("config: expected a preset, a path, a dict or a Config; or task=, a function")
    short = {"run.generations": request.generations, "run.seed": request.seed}
    settings = (*changes_of(request.settings), *((key, value) for key, value in short.items() if value is not None))
    start = None if request.start is None else policy_of(request.start, request)
    if not start and (request.layers or request.normaliser or request.activation):
        raise ConfigError("--layers, --normaliser and --activation describe the policy of --from; add --from")
    run = RunToTrain(source, settings, out, start, request.resume, request.overwrite, request.force, request.trust)
    curves = None if request.tensorboard is None else Path(request.tensorboard)
    return partial(
        session.run_session,
        prepare_run=run.prepare,
        stall_minutes=partial(stall_minutes, source, settings),
        max_hours=request.max_hours,
        callback=callback,
        curves=curves,
    )
