"""The journal: checksummed records, appended to one file. A record is complete or ignored.

file    = "EESJRNL1" run_id[16]  record*
record  = length (u64, little-endian)  blake2b-16 of the payload  payload (MessagePack)
"""

import hashlib
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

MAGIC = b"EESJRNL1"
HEAD = struct.Struct("<Q16s")
Entry = dict[str, Any]


def path_of(run: Path) -> Path:
    """Return the path of the journal of a run file."""
    return run.with_name(run.name + ".journal")


def encode(record: Mapping[str, Any]) -> bytes:
    """Return a record of plain values, arrays and dicts of arrays as bytes."""
    payload = msgspec.msgpack.encode(record, enc_hook=_from_array)
    return HEAD.pack(len(payload), _checksum(payload)) + payload


def _from_array(value: Any) -> Any:
    array = np.asarray(value)
    return {"dtype": array.dtype.str, "shape": array.shape, "bytes": array.tobytes()}


def _to_array(value: dict[str, Any]) -> NDArray[Any]:
    return np.frombuffer(value["bytes"], value["dtype"]).reshape(value["shape"])


def _checksum(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=16).digest()


def decode(payload: bytes) -> Entry:
    """Return the record of a payload; "arrays" and "state" become dicts of numpy arrays."""
    record: Entry = msgspec.msgpack.decode(payload)
    for key in ("arrays", "state"):
        if key in record:
            record[key] = {name: _to_array(value) for name, value in record[key].items()}
    return record


@dataclass(frozen=True)
class Contents:
    """The contents of a journal."""

    run_id: str = ""
    records: list[Entry] = field(default_factory=list)  # the complete ones, oldest first
    damaged: bool = False  # records follow a broken one


def read(run: Path) -> Contents:
    """Read the journal beside a run file; an incomplete last record is ignored, and a missing journal is empty.

    Only the record of the last generation keeps its state.
    """
    try:
        file = open(path_of(run), "rb")
    except FileNotFoundError:
        return Contents()
    with file:
        size = os.fstat(file.fileno()).st_size
        if file.read(len(MAGIC)) != MAGIC:
            return Contents(damaged=size > 0)
        run_id = file.read(16).hex()
        records: list[Entry] = []
        end = file.tell()
        for payload in _payloads(file, size):
            end = file.tell()
            record = decode(payload)
            if "state" in record:
                for older in records:
                    older.pop("state", None)
            records.append(record)
        return Contents(run_id, records, _continues_after_damage(file, end, size))


def _payloads(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the payloads before the first broken one."""
    while len(head := file.read(HEAD.size)) == HEAD.size:
        length, checksum = HEAD.unpack(head)
        if length > size - file.tell():
            return
        payload = file.read(length)
        if _checksum(payload) != checksum:
            return
        yield payload


def _continues_after_damage(file: BinaryIO, end: int, size: int) -> bool:
    """Return True if bytes follow the first broken record: a kill breaks only the last record."""
    file.seek(end)
    head = file.read(HEAD.size)
    return len(head) == HEAD.size and end + HEAD.size + HEAD.unpack(head)[0] < size


class JournalWriter:
    """Appends records to a new journal, which replaces the old one."""

    def __init__(self, run: Path, run_id: str, fsync: bool):
        self._path = path_of(run)
        self._fsync = fsync
        fresh = self._path.with_name(self._path.name + ".new")
        self._file = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        self.size = 0  # bytes
        try:
            self.append_bytes(MAGIC + bytes.fromhex(run_id))
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
