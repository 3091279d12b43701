"""The sessions of a run file: one for each writer, with its ranks, its machine and its config."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import h5py
import numpy as np

from ees_mpi.store import layout, records, texts
from ees_mpi.store.records import Record

Session = dict[str, Any]
MOST = 10_000  # sessions of a file
LAST_DATE = 1e11  # seconds since 1970
HASHED = ("start", "first_generation", "ranks", "nodes", "host", "machine", "config")
HASH, BEFORE = layout.HASHES[3]


def record_of(run_id: str, number: int, before: bytes, values: Mapping[str, Any]) -> Record:
    """Return the record of a session."""
    columns, data = records.flat(records.plain({name: values[name] for name in HASHED}))
    return records.make(run_id, "session", number, before, columns, data)


def of_record(record: Record) -> Session:
    """Return the session of a record; raise a ValueError if it has other values than we write."""
    values = {name: texts.text(array[()]) for name, array in record.arrays.items()}
    session = {name: values[name] if isinstance(values[name], str) else values[name].item() for name in HASHED}
    session |= {"end": session["start"], HASH: record.hash.hex(), BEFORE: record.before.hex()}
    return checked(session)


def checked(session: Session) -> Session:
    """Return a session; raise a ValueError if its values are not those of a writer."""
    if not all(
        isinstance(session[name], int) and session[name] >= 0 for name in ("first_generation", "ranks", "nodes")
    ):
        raise ValueError("a session has numbers that are no counts")
    if not all(0 <= float(session[name]) < LAST_DATE for name in ("start", "end")):
        raise ValueError("a session has times that are no dates")
    if not isinstance(session["host"], str) or not isinstance(json.loads(session["machine"]), dict):
        raise ValueError("a session names no host, or no machine")
    return session


def read(file: h5py.File, version: int, run_id: str) -> list[Session]:
    """Return the sessions of a file; those of format 3 have their hashes, which are checked."""
    group = file["sessions"]
    count = group["session"].shape[0]
    if count > MOST or not np.array_equal(group["session"][:], np.arange(count)):
        raise ValueError(f"its {count} sessions are not numbered from 0, or too many")
    columns = {
        name: texts.column(group[name]) if kind == "str" else group[name][:].tolist()
        for name, kind in layout.SESSIONS[version].items()
    }
    sessions = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for number, session in enumerate(sessions):
        checked(session)
        if (
            version > 2
            and session[HASH] != record_of(run_id, number, bytes.fromhex(session[BEFORE]), session).hash.hex()
        ):
            raise ValueError(f"session {number} does not have the hash in it")
    return sessions


def read_all(file: h5py.File, version: int, run_id: str, entries: Sequence[Record], clock: Any) -> list[Session]:
    """Return the sessions of a file and of its journal; each ends with its last commit. `clock`: of each commit."""
    writers = read(file, version, run_id)
    new = [record for record in entries if record.kind == "session" and record.number >= len(writers)]
    writers += map(of_record, new)
    ends = [session["first_generation"] for session in writers[1:]] + [len(clock)]
    for session, end in zip(writers, ends, strict=False):
        session["machine"] = json.loads(session["machine"])
        wrote = session["first_generation"] < min(end, len(clock))
        session["end"] = float(clock[min(end, len(clock)) - 1]) if wrote else session["start"]
    return writers


def write(file: h5py.File, sessions: Sequence[Session], version: int) -> None:
    """Write all sessions again; each text column is as wide as its longest text."""
    if "sessions" in file:
        del file["sessions"]
    group = file.create_group("sessions")
    number = group.create_dataset("session", data=np.arange(len(sessions), dtype="<i8"))
    number.make_scale("session")
    for name, kind in layout.SESSIONS[version].items():
        values = [session[name] for session in sessions]
        if kind == "str":
            values = [value.encode("utf-8", "surrogateescape") for value in values]
            dtype = h5py.string_dtype() if version == 2 else texts.fixed(max(map(len, values), default=1))
        else:
            dtype = kind
        dataset = group.create_dataset(name, (len(values),), dtype, data=values if values else None)
        dataset.dims[0].attach_scale(number)
