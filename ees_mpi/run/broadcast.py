"""Read on rank 0, and send the result to every rank: the only rank that opens a run file is rank 0."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ees_mpi.config import Config, check_code
from ees_mpi.ranks import Ranks

if TYPE_CHECKING:
    from ees_mpi.run.file import Run


def read_config(ranks: Ranks, read: Callable[[], Config]) -> Config:
    """Return the config that rank 0 reads, and set its time limit, on every rank; before any code of the user runs."""
    config, _ = read_on_root(ranks, lambda: {"config": read()})
    ranks.set_stall_limit(60 * config.run.stall_minutes)
    return config


def read_on_root(ranks: Ranks, read: Callable[[], Mapping[str, Any]]) -> tuple[Config, dict[str, Any]]:
    """Call `read` on rank 0, and return its results on every rank: its "config", and all others.

    The config keeps its marks: rank 0 has decided for all ranks what may run.
    """
    data = None
    with ranks.together():
        if ranks.is_root:
            data = pickle.dumps(dict(read()))
    received = pickle.loads(ranks.broadcast(data))  # noqa: S301  (of rank 0)
    return received.pop("config"), received


def open_on_ranks(ranks: Ranks, path: Path, trust: bool, needed: Sequence[str]) -> "Run":
    """Open a run file on every rank; rank 0 decides for all whether the code that it names may run.

    needed: the sections whose code the caller will run
    """
    from ees_mpi.run.file import open_run, tell_missing  # imports h5py

    with ranks.together():
        run = open_run(path, trust)
        if ranks.is_root:
            tell_missing(run)
    run.config = as_on_root(ranks, run.config)
    with ranks.together():
        check_code(run.config, needed)
    return run


def as_on_root(ranks: Ranks, config: Config) -> Config:
    """Return the config that all ranks have read, with the marks of rank 0."""
    return read_on_root(ranks, lambda: {"config": config})[0]
