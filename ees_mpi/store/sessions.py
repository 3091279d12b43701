"""The sessions of a run file: one for each writer, with its ranks, its machine and its config."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import h5py

from ees_mpi.store import chunks, hdf5, layout
from ees_mpi.store.records import Entry

Session = dict[str, Any]
MAX_SESSIONS = 10_000  # sessions of a file


def read(group: Mapping[str, Any]) -> list[Session]:
    """Return the sessions of a file; `group`: its datasets of sessions."""
    count = group["session"].shape[0]
    if count > MAX_SESSIONS or chunks.read(group["session"], 0, count).tolist() != list(range(count)):
        raise ValueError(f"its {count} sessions are not numbered from 0, or too many")
    columns = {name: chunks.read(group[name], 0, count).tolist() for name in ("session", *layout.SESSIONS)}
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, map(hdf5.text, row), strict=True)) for row in rows]


def with_new(writers: Sequence[Session], entries: Sequence[Entry]) -> list[Session]:
    """Return the sessions of a file, and those that began in its journal."""
    found = list(writers)
    for record in entries:
        if record.kind == "session" and record.arrays["session"] >= len(found):
            values = {name: hdf5.text(array.item()) for name, array in record.arrays.items()}
            found.append({**values, "end": values["start"]})
    return found


def finished(writers: Sequence[Session], clock: Any) -> list[Session]:
    """Return sessions with their machines as tables; each ends with its last commit. `clock`: of each commit."""
    ends = [session["first_generation"] for session in writers[1:]] + [len(clock)]
    found = []
    for session, end in zip(writers, ends, strict=False):
        last = min(end, len(clock)) - 1
        ended = float(clock[last]) if session["first_generation"] <= last else session["start"]
        found.append({**session, "machine": json.loads(session["machine"]), "end": ended})
    return found


def write(file: h5py.File, writers: Sequence[Session]) -> None:
    """Write all sessions again; each text column is as wide as its longest text.

    They have no dimension scales: HDF5 can hang when it deletes a dataset that has some, and their heap is damaged.
    """
    if "sessions" in file:
        del file["sessions"]
    group = file.create_group("sessions")
    for name, kind in {"session": "<i8", **layout.SESSIONS}.items():
        values: list[Any] = [{**session, "session": place}[name] for place, session in enumerate(writers)]
        dtype: Any = kind
        if kind == "str":
            values = [value.encode("utf-8", "surrogateescape") for value in values]
            dtype = hdf5.fixed(max(map(len, values), default=1))
        chunks.append(chunks.create(group, name, (), dtype, rows=1), values)
