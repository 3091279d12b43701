"""The journal: records, appended to one file.

file    = "EESJRNL5"  run id (32 hexadecimal digits)  record*
record  = length of the payload (u64, little-endian)  crc32 of the payload (u32)  crc32 of these 12 bytes (u32)  payload
payload = a line of JSON: number, kind, before, after, values, state ([name, type, shape] of each array)
          the bytes of the row of a generation, and of the arrays of the state after it

A kill cuts the last record short: it never happened. Every other fault is damage; the checksum of the length tells a
damaged length from a short record.
"""

import json
import math
import os
import struct
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.store.files import beside, damage_reported, open_plain, sync
from ees_mpi.store.layout import Arrays

MAGIC = b"EESJRNL5"
START = len(MAGIC) + 32
HEAD = struct.Struct("<QII")


@dataclass(frozen=True)
class Record:
    """A "generation", a new "session", or changed "attributes"."""

    number: int  # of all records of the run, from 0
    kind: str
    before: str  # digest of the state before it
    after: str  # and after it
    values: Mapping[str, Any] = field(default_factory=dict)  # of a session, or of attributes
    row: bytes | memoryview = b""  # of a generation
    state: Arrays = field(default_factory=dict)  # after a generation


@dataclass(frozen=True)
class Journal:
    """What a journal has: its complete records before the first fault, and what is wrong after them."""

    run_id: str = ""
    records: tuple[Record, ...] = ()
    unread: int = 0  # bytes after the last complete record
    damaged: bool = False  # more than a short last record is wrong
    cut: bool = False  # it ends within a record, as it does while one is written, or before its first one
    missing: bool = False


def encode(record: Record) -> bytes:
    """Return a record as it is in the journal."""
    columns = [(name, array.dtype.str, array.shape) for name, array in record.state.items()]
    line = json.dumps({**vars(record), "row": len(record.row), "state": columns}).encode()
    payload = b"".join((line, b"\n", record.row, *(array.tobytes() for array in record.state.values())))
    head = struct.pack("<QI", len(payload), zlib.crc32(payload))
    return b"".join((head, struct.pack("<I", zlib.crc32(head)), payload))


def decode(data: bytes, start: int, stop: int) -> Record:
    """Return the record whose payload is a part of some bytes; its arrays stay there."""
    end = data.index(b"\n", start, stop) + 1
    words = json.loads(data[start:end])
    rest = memoryview(data)[end:stop]
    row, state = rest[: words["row"]], named(words["state"], rest[words["row"] :])
    return Record(**{**words, "row": row, "state": state})


def named(columns: list[tuple[str, str, list[int]]], data: memoryview) -> dict[str, NDArray[Any]]:
    """Return the arrays that are in some bytes, one after the other."""
    arrays, start = {}, 0
    for name, kind, shape in columns:
        arrays[name] = np.frombuffer(data, kind, math.prod(shape), start).reshape(shape)
        start += arrays[name].nbytes
    return arrays


def path_of(run: Path) -> Path:
    """Return the path of the journal of a run file; that of a symbolic link is beside the file itself."""
    return beside(run.resolve(), "journal")


def read(run: Path) -> Journal:
    """Read the journal of a run file up to its first fault."""
    journal = path_of(run)
    try:
        number = open_plain(journal)
    except FileNotFoundError:
        return Journal(missing=True)
    with damage_reported(journal), open(number, "rb") as file:
        return parse(file.read())


def parse(data: bytes) -> Journal:
    """Return the contents of the bytes of a journal."""
    if len(data) < START or not data.startswith(MAGIC):
        cut = MAGIC.startswith(data[: len(MAGIC)])
        return Journal(unread=len(data), damaged=not cut, cut=cut)
    records: list[Record] = []
    place, damaged = START, False
    while len(data) - place >= HEAD.size:
        length, checksum, seal = HEAD.unpack_from(data, place)
        start, stop = place + HEAD.size, place + HEAD.size + length
        damaged = zlib.crc32(data[place : place + 12]) != seal
        if damaged or len(data) < stop:
            break  # a short record was cut by a kill
        damaged = zlib.crc32(memoryview(data)[start:stop]) != checksum
        if damaged:
            break
        records.append(decode(data, start, stop))
        place = stop
    run_id, unread = data[len(MAGIC) : START].decode("ascii", "replace"), len(data) - place
    return Journal(run_id, tuple(records), unread, damaged, cut=unread > 0 and not damaged)


class JournalWriter:
    """Appends records to a new journal, which replaces the old one."""

    def __init__(self, path: Path, run_id: str, fsync: bool):
        self._fsync = fsync
        fresh = beside(path, "journal.new")
        fresh.unlink(missing_ok=True)  # a link that somebody placed there is not followed
        self._file = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self.size = 0  # bytes
        try:
            self._write(MAGIC + run_id.encode("ascii"))
            os.replace(fresh, beside(path, "journal"))
        except OSError:
            self.close()
            fresh.unlink(missing_ok=True)
            raise
        with suppress(OSError):  # the file is in place, and commits must go to it
            sync(path.parent)

    def append(self, record: Record) -> None:
        """Append one record and write it to the disk; after an error the file is as before."""
        self._write(encode(record))

    def _write(self, data: bytes) -> None:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._file, view) :]
            if self._fsync:
                os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, self.size)
            os.lseek(self._file, self.size, os.SEEK_SET)
            raise
        self.size += len(data)

    def contents(self) -> Journal:
        """Return what was written; also if the name of the file is gone."""
        return parse(Path(f"/proc/self/fd/{self._file}").read_bytes())

    def close(self) -> None:
        """Close the file and keep it."""
        os.close(self._file)
