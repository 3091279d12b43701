"""Run files and journals of format 2, which are read and continued, but not created.

Format 2 has a hash for the numbers and one for the times of each generation, one for each small group, and one for the
root attributes. None of them contains the run. Texts have variable lengths.

journal = "EESJRNL2" run_id[16]  blake2b-8 of these 24 bytes  record*
record  = length (u64)  blake2b-16 of the payload  blake2b-8 of these 24 bytes  payload (MessagePack)
"""

import hashlib
import json
import struct
from collections.abc import Mapping
from typing import Any

import h5py
import msgspec
import numpy as np
from numpy.typing import NDArray

from ees_mpi.outcomes import Arrays, digest
from ees_mpi.store import records, texts
from ees_mpi.store.records import START, Record

MAGIC = b"EESJRNL2"
HEAD = struct.Struct("<Q16s")
ROW, TIMES = "row_sha256", "seconds_sha256"
ATTRIBUTES = "attributes_sha256"
GROUP = "sha256"  # an attribute of the groups `final`, `previous`, `partial` and `sessions`


def of_row(row: Arrays, generation: int) -> dict[str, str]:
    """Return the two hashes of a generation."""
    number = {"generation": np.array(generation, np.int64)}
    names = sorted(name for name in row if name not in (ROW, TIMES))
    times = [name for name in names if name.startswith("seconds_")]
    others = [name for name in names if name not in times]
    return {
        own: digest({**number, **{name: row[name] for name in part}}).hex()
        for own, part in ((ROW, others), (TIMES, times))
    }


def of_attributes(attributes: Mapping[str, Any]) -> str:
    """Return the hash of the root attributes."""
    return digest({name: _plain(attributes[name]) for name in sorted(attributes) if name != ATTRIBUTES}).hex()


def of_group(group: h5py.Group) -> str:
    """Return the hash of the datasets of a group."""
    if "machine" not in group:
        return records.state_digest(texts.datasets(group)).hex()
    named = {
        name: _plain(texts.column(item)) if item.dtype.kind == "O" else np.asarray(item[()])
        for name, item in group.items()
    }
    return digest(dict(sorted(named.items()))).hex()


def _plain(value: Any) -> NDArray[Any]:
    """Return a value as an array of plain bytes; texts become a JSON list."""
    if isinstance(value, (str, list)):
        return np.frombuffer(json.dumps([value] if isinstance(value, str) else value).encode(), np.uint8)
    return np.asarray(value)


def has_group_hash(file: h5py.File, name: str) -> bool:
    """Return True if a group has its hash."""
    return bool(texts.attributes(file[name]).get(GROUP) == of_group(file[name]))


def renew(file: h5py.File, *groups: str) -> None:
    """Write the hashes of some groups and of the root attributes again."""
    for name in groups:
        file[name].attrs[GROUP] = of_group(file[name])
    file.attrs[ATTRIBUTES] = of_attributes(texts.attributes(file))


def record_of(_run_id: str, hashes: list[bytes], payload: bytes) -> tuple[Record, dict[str, NDArray[Any]]] | None:
    """Return the record of a journal and its state; nothing if the checksum is wrong."""
    if [hashlib.blake2b(payload, digest_size=16).digest()] != hashes:
        return None
    entry = msgspec.msgpack.decode(payload, type=dict[str, Any])
    return _record(entry), _arrays(entry.get("state", {}))


def _record(entry: dict[str, Any]) -> Record:
    """Return a record of format 2 as one of today, without a chain."""
    kind = entry["kind"]
    if kind == "session":
        names = ("start", "first_generation", "ranks", "nodes", "host", "config")
        values = {**{name: entry[name] for name in names}, "machine": json.dumps(entry["machine"])}
        arrays = records.plain({**values, "start": float(entry["start"])})
    else:
        arrays = _arrays(entry["arrays"])
        arrays = {name: arrays[name] for name in sorted(arrays) if name not in (ROW, TIMES)}
    number = entry["session" if kind == "session" else "generation"]
    if not isinstance(kind, str) or not isinstance(number, int):
        raise ValueError("a record has no kind or no number")
    return Record(kind, number, *records.flat(arrays), START, START)


def _arrays(named: dict[str, Any]) -> dict[str, NDArray[Any]]:
    return {name: np.frombuffer(one["bytes"], one["dtype"]).reshape(one["shape"]) for name, one in named.items()}
