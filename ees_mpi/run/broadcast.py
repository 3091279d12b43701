"""Read on rank 0, and send the result to every rank: the only rank that opens a run file is rank 0."""

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ees_mpi.config import Config, check_code
from ees_mpi.ranks import Ranks

if TYPE_CHECKING:
    from ees_mpi.run.file import Run

T = TypeVar("T")


def read_config(ranks: Ranks, read: Callable[[], Config]) -> Config:
    """Return the config that rank 0 reads, and set its time limit, on every rank; before any code of the user runs."""
    config = read_on_root(ranks, read)
    ranks.set_stall_limit(60 * config.run.stall_minutes)
    return config


def read_on_root(ranks: Ranks, read: Callable[[], T]) -> T:
    """Call `read` on rank 0, and return its result on every rank.

    A config keeps its marks: rank 0 has decided for all ranks what may run.
    """
    data = None
    with ranks.together():
        if ranks.is_root:
            data = pickle.dumps(read())
    received: T = pickle.loads(ranks.broadcast(data))  # noqa: S301  (of rank 0)
    return received


def open_on_ranks(ranks: Ranks, path: Path, trust: bool, needed: Sequence[str]) -> "Run":
    """Open a run file on every rank; rank 0 decides for all whether the code that it names may run.

    needed: the sections whose code the caller will run
    """
    from ees_mpi.run.file import open_run, tell_missing  # imports h5py

    with ranks.together():
        run = open_run(path, trust)
        if ranks.is_root:
            tell_missing(run)
    run.config = read_on_root(ranks, lambda: run.config)
    with ranks.together():
        check_code(run.config, needed)
    return run
