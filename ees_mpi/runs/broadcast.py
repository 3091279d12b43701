"""Read on rank 0, and send the result to every rank: the only rank that opens a run file is rank 0."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from ees_mpi.config import Config, check_code, parse
from ees_mpi.ranks import Ranks
from ees_mpi.registry.marks import marks_of, with_marks
from ees_mpi.registry.toml import tables
from ees_mpi.store import records
from ees_mpi.store.reader import Run, open_run

TABLES = ("arrays", "state")  # the keys whose values are dicts of arrays


def set_limit(ranks: Ranks, stall_minutes: Callable[[], float]) -> None:
    """Read the time limit of a job on rank 0, and set it on every rank; before any code of the user runs."""
    limit = b""
    with ranks.together():
        if ranks.is_root:
            limit = str(stall_minutes()).encode()
    ranks.set_stall_limit(60 * float(ranks.broadcast(limit)))


def read_on_root(ranks: Ranks, read: Callable[[], Mapping[str, Any]]) -> tuple[Config, dict[str, Any]]:
    """Call `read` on rank 0, and return its results on every rank: its "config", and all others.

    The values of "arrays" and "state" are dicts of arrays; other values are plain.
    """
    data = None
    with ranks.together():
        if ranks.is_root:
            record = dict(read())
            config: Config = record.pop("config")
            packed = {key: records.flat(value) if key in TABLES else value for key, value in record.items()}
            marks = marks_of(config.tables())  # rank 0 has decided for all ranks what may run
            data = msgspec.msgpack.encode((config.to_toml(), marks, config.notes, config.folders, packed))
    text, marks, notes, folders, received = msgspec.msgpack.decode(ranks.broadcast(data))
    values = {key: records.named(*value) if key in TABLES else value for key, value in received.items()}
    config = parse(with_marks(tables(text, (), "config"), marks), trust=None, stored=True)
    return replace(config, notes=tuple(notes), folders=tuple(folders)), values


def open_on_ranks(ranks: Ranks, path: Path, trust: bool, needed: Sequence[str]) -> Run:
    """Open a run file on every rank; rank 0 decides for all whether the code that it names may run.

    needed: the sections whose code the caller will run; a TrustError says that it may not
    """
    with ranks.together():
        run = open_run(path, trust)
    run.config = as_on_root(ranks, run.config)
    with ranks.together():
        check_code(run.config, needed)
    return run


def as_on_root(ranks: Ranks, config: Config) -> Config:
    """Return the config that all ranks have read, with what rank 0 lets run."""
    return read_on_root(ranks, lambda: {"config": config})[0]
