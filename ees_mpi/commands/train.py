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
from ees_mpi.runs.session import Callback
from ees_mpi.runs.start import RunToTrain, stall_minutes


def job_of(request: TrainRequest, callback: Callback | None = None) -> Callable[[Ranks], Path]:
    """Return the job that trains on all ranks, and returns the path of the run file."""
    if request.resume and request.overwrite:
        raise ConfigError("resume and overwrite exclude each other")
    source: Any = request.config
    out = None if request.out is None else Path(request.out)
    if source is None:
        raise ConfigError("config: expected a preset, a path, a dict or a Config")
    if isinstance(source, str):
        if check_no_mean(source).endswith(".toml"):
            beside(source)  # on every rank: rank 0 alone reads the file
    elif isinstance(source, Config):
        FOLDERS.extend(source.folders)
    short = {"run.generations": request.generations, "run.seed": request.seed}
    settings = (*changes_of(request.settings), *((key, value) for key, value in short.items() if value is not None))
    start = None if request.start is None else policy_of(request.start, request)
    if not start and (request.layers or request.normaliser or request.activation):
        raise ConfigError("--layers, --normaliser and --activation describe the policy of --from; add --from")
    run = RunToTrain(source, settings, out, start, request.resume, request.overwrite, request.force, request.trust)
    curves = None if request.tensorboard is None else Path(request.tensorboard).absolute()
    return partial(
        session.run_session,
        prepare_run=run.prepare,
        stall_minutes=partial(stall_minutes, source, settings),
        max_hours=request.max_hours,
        callback=callback,
        curves=curves,
    )
