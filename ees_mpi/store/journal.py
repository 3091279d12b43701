"""The journal: records, appended to one file.

file    = "EESJRNL3" run_id[16]  blake2b-8 of these 24 bytes  record*
record  = length (u64, little-endian)  hash[32]  hash before[32]  blake2b-8 of these 72 bytes  payload (MessagePack)
payload = [kind, number, columns, bytes, columns of the state, bytes of the state]; see `records`

A kill cuts the last record short: it is ignored. Every other fault is damage, and is reported; the checksum of the
header tells a damaged length from a short record. The hash of a record covers everything but its state, whose digest
is one of the arrays. Journals of version 2 are read by `format2`.
"""

import hashlib
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from ees_mpi.outcomes import Arrays
from ees_mpi.store import format2, records
from ees_mpi.store.records import Columns, Record
from ees_mpi.store.safety import damage_reported, open_plain, real

MAGIC = b"EESJRNL3"
HEAD = struct.Struct("<Q32s32s")
SEAL = 8  # bytes of the checksum of a header
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[str, int, Columns, bytes, Columns, bytes])


def path_of(run: Path) -> Path:
    """Return the path of the journal of a run file; that of a symbolic link is beside the file itself."""
    run = real(run)
    return run.with_name(run.name + ".journal")


def encode(record: Record, state: Arrays | None = None) -> bytes:
    """Return a record as it is in the journal; `state`: that after a generation."""
    columns, data = records.flat(state or {})
    parts = (record.kind, record.number, _packed(record.columns), record.data, _packed(columns), data)
    payload = _encoder.encode(parts)
    return _sealed(HEAD.pack(len(payload), record.hash, record.before)) + payload


@lru_cache(maxsize=64)  # all generations of a run have the same columns
def _packed(columns: Columns) -> msgspec.Raw:
    return msgspec.Raw(_encoder.encode(columns))


def _sealed(head: bytes) -> bytes:
    """Return a header with its checksum."""
    return head + hashlib.blake2b(head, digest_size=SEAL).digest()


@dataclass(frozen=True)
class Contents:
    """The contents of a journal."""

    run_id: str = ""
    records: list[Record] = field(default_factory=list)  # the complete ones before the first fault, oldest first
    state: Mapping[str, Any] = field(default_factory=dict)  # after the last generation of these
    damaged: bool = False  # more than a short last record is wrong
    unread: int = 0  # bytes after the last complete record


def read(run: Path) -> Contents:
    """Read the journal beside a run file up to its first fault; a missing journal is empty."""
    path = path_of(run)
    try:
        number = open_plain(path)
    except FileNotFoundError:
        return Contents()
    with damage_reported(path), open(number, "rb") as file:
        return _parse(file.read())


def _parse(data: bytes) -> Contents:
    layout, record_of = (format2.HEAD, format2.record_of) if data.startswith(format2.MAGIC) else (HEAD, _record_of)
    head = data[: len(MAGIC) + 16]
    place, step = len(head) + SEAL, layout.size + SEAL
    if not head.startswith((MAGIC, format2.MAGIC)):
        return Contents(damaged=bool(data), unread=len(data))
    if data[:place] != _sealed(head):
        return Contents(damaged=len(data) >= place, unread=len(data))
    run_id, damaged = head[len(MAGIC) :].hex(), False
    complete: list[Record] = []
    state: dict[str, Any] = {}
    while len(data) - place >= step:
        header = data[place : place + layout.size]
        length, *hashes = layout.unpack(header)
        payload = data[place + step : place + step + length]
        damaged = data[place : place + step] != _sealed(header)
        if damaged or len(payload) < length:
            break  # a short record was cut by a kill
        try:
            read = record_of(run_id, hashes, payload)
        except (LookupError, TypeError, ValueError):  # msgspec's errors are ValueErrors
            read = None
        if damaged := read is None:
            break
        complete.append(read[0])
        state = read[1] or state
        place += step + length
    return Contents(run_id, complete, state, damaged, len(data) - place)


def _record_of(run_id: str, hashes: list[bytes], payload: bytes) -> tuple[Record, dict[str, Any]] | None:
    """Return the record of a payload and its state; nothing if the hash or the digest of the state is wrong."""
    own, before = hashes
    kind, number, columns, data, state_columns, state_data = _decoder.decode(payload)
    record = records.make(run_id, kind, number, before, columns, data)
    state = records.named(state_columns, state_data)
    if record.hash != own:
        return None
    if kind == "generation" and record.arrays["state_sha256"] != records.state_digest(state).hex().encode():
        return None
    return record, state


def set_aside(run: Path, why: str) -> Path | None:
    """Rename the journal of a run to a name that says why it is not used; return that name."""
    path = path_of(run)
    if not os.path.lexists(path):
        return None
    name, number = path.with_name(f"{path.name}.{why}"), 2
    while os.path.lexists(name):
        name, number = path.with_name(f"{path.name}.{why}-{number}"), number + 1
    os.replace(path, name)
    return name


class JournalWriter:
    """Appends records to a new journal, which replaces the old one."""

    def __init__(self, run: Path, run_id: str, fsync: bool):
        self._path = path_of(run)
        self._fsync = fsync
        fresh = self._path.with_name(self._path.name + ".new")
        fresh.unlink(missing_ok=True)  # a link that somebody placed there is not followed
        self._file = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self.size = 0  # bytes
        try:
            self.append_bytes(_sealed(MAGIC + bytes.fromhex(run_id)))
            os.replace(fresh, self._path)
        except OSError:
            os.close(self._file)
            fresh.unlink(missing_ok=True)
            raise
        sync_folder(self._path)

    def append_bytes(self, data: bytes) -> None:
        """Append bytes and write them to disk; after an error the file is as before."""
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

    def append(self, record: Record, state: Arrays | None = None) -> None:
        """Append one record; `state`: that after a generation."""
        self.append_bytes(encode(record, state))

    def close(self) -> None:
        """Close the file and keep it."""
        os.close(self._file)

    def remove(self) -> None:
        """Delete the file, after all of it is folded."""
        self._path.unlink(missing_ok=True)


def sync_folder(path: Path) -> None:
    """Write a rename in a folder to disk, so that it survives a crash of the machine."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
