"""Read on rank 0, and send the result to every rank: the only rank that opens a run file is rank 0."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from ees_mpi.config import Config, parse
from ees_mpi.ranks import Ranks
from ees_mpi.store import records

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
            data = msgspec.msgpack.encode((config.to_toml(), config.notes, packed))
    text, notes, received = msgspec.msgpack.decode(ranks.broadcast(data))
    values = {key: records.named(*value) if key in TABLES else value for key, value in received.items()}
    return replace(parse(text, trusted=True, stored=True), notes=tuple(notes)), values  # rank 0 has checked it
