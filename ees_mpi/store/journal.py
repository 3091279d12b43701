"""The journal: checksummed records, appended to one file.

file    = "EESJRNL2" run_id[16]  blake2b-8 of these 24 bytes  record*
record  = length (u64, little-endian)  blake2b-16 of the payload  blake2b-8 of these 24 bytes  payload (MessagePack)

A kill cuts the last record short: it is ignored. Every other fault is damage, and is reported; the checksum of the
header tells a damaged length from a short record. Journals of version 1, "EESJRNL1", have no checksums of headers.
"""

import hashlib
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ees_mpi.store.safety import damage_reported, open_plain, real

MAGIC, OLDER = b"EESJRNL2", b"EESJRNL1"
HEAD = struct.Struct("<Q16s")
SEAL = 8  # bytes of the checksum of a header
Entry = dict[str, Any]


def path_of(run: Path) -> Path:
    """Return the path of the journal of a run file; that of a symbolic link is beside the file itself."""
    run = real(run)
    return run.with_name(run.name + ".journal")


def pack(record: Mapping[str, Any]) -> bytes:
    """Return a record of plain values, arrays and dicts of arrays as bytes."""
    return msgspec.msgpack.encode(record, enc_hook=_from_array)


def encode(record: Mapping[str, Any]) -> bytes:
    """Return a record with its header, as it is in the journal."""
    payload = pack(record)
    return _sealed(HEAD.pack(len(payload), _checksum(payload))) + payload


def _sealed(head: bytes) -> bytes:
    """Return a header with its checksum."""
    return head + hashlib.blake2b(head, digest_size=SEAL).digest()


def _from_array(value: Any) -> Any:
    array = np.asarray(value)
    return {"dtype": array.dtype.str, "shape": array.shape, "bytes": array.tobytes()}


def _to_array(value: dict[str, Any]) -> NDArray[Any]:
    return np.frombuffer(value["bytes"], value["dtype"]).reshape(value["shape"])


def _checksum(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=16).digest()


def decode(payload: bytes) -> Entry:
    """Return the record of a payload; "arrays" and "state" become dicts of numpy arrays."""
    record: Entry = msgspec.msgpack.decode(payload, type=dict[str, Any])
    for key in ("arrays", "state"):
        if key in record:
            record[key] = {name: _to_array(value) for name, value in record[key].items()}
    return record


@dataclass(frozen=True)
class Contents:
    """The contents of a journal."""

    run_id: str = ""
    records: list[Entry] = field(default_factory=list)  # the complete ones before the first fault, oldest first
    damaged: bool = False  # more than a short last record is wrong
    unread: int = 0  # bytes after the last complete record
    sealed: bool = True  # False: version 1, in which a damaged length looks like a short record

    @property
    def whole(self) -> bool:
        """True if nothing but a short last record was left unread."""
        return not self.damaged and (self.sealed or not self.unread)


def read(run: Path) -> Contents:
    """Read the journal beside a run file up to its first fault; a missing journal is empty.

    Only the record of the last generation keeps its state.
    """
    path = path_of(run)
    try:
        number = open_plain(path)
    except FileNotFoundError:
        return Contents()
    with damage_reported(path), open(number, "rb") as file:
        return _parse(file.read())


def _parse(data: bytes) -> Contents:
    head = data[: len(MAGIC) + 16]
    sealed = head.startswith(MAGIC)
    seal = SEAL if sealed else 0
    if not sealed and not head.startswith(OLDER):
        return Contents(damaged=bool(data), unread=len(data))
    if len(data) < len(head) + seal or (sealed and data[: len(head) + seal] != _sealed(head)):
        return Contents(damaged=len(data) >= len(head) + seal, unread=len(data))
    records: list[Entry] = []
    newest: Entry = {}  # the last record with a state
    place, step = len(head) + seal, HEAD.size + seal
    damaged = False
    while len(data) - place >= step:
        header = data[place : place + HEAD.size]
        length, checksum = HEAD.unpack(header)
        if sealed and data[place : place + step] != _sealed(header):
            damaged = True
            break
        payload = data[place + step : place + step + length]
        if len(payload) < length:
            break  # cut short by a kill
        if _checksum(payload) != checksum:
            damaged = True
            break
        record = decode(payload)
        if "state" in record:
            newest.pop("state", None)
            newest = record
        records.append(record)
        place += step + length
    return Contents(head[len(MAGIC) :].hex(), records, damaged, len(data) - place, sealed)


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

    def append(self, record: Mapping[str, Any]) -> None:
        """Append one record."""
        self.append_bytes(encode(record))

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
