"""The journal: records, appended to one file.

file    = "EESJRNL4" record*
record  = length (u64, little-endian)  run_id[16]  state_sha256 before[32]  crc32 of the payload (u32)
          crc32 of these 60 bytes (u32)  payload (MessagePack)
payload = [kind, generation, columns, bytes, columns of the state, bytes of the state]; see `records`

A kill cuts the last record short: it is ignored. Every other fault is damage, and is reported; the checksum of the
header tells a damaged length from a short record. The state before a record shows records of a copy of the run that
went another way.
"""

import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ees_mpi.errors import RunFileError
from ees_mpi.outcomes import Arrays
from ees_mpi.store import records
from ees_mpi.store.records import Columns, Entry
from ees_mpi.store.safety import damage_reported, open_plain, real

MAGIC = b"EESJRNL4"
HEAD = struct.Struct("<Q16s32sI")
SEAL = struct.Struct("<I")
STEP = HEAD.size + SEAL.size
_encoder = msgspec.msgpack.Encoder()
Count = Annotated[int, msgspec.Meta(ge=0)]
_decoder = msgspec.msgpack.Decoder(tuple[str, Count, Columns, bytes, Columns, bytes])


def path_of(run: Path) -> Path:
    """Return the path of the journal of a run file; that of a symbolic link is beside the file itself."""
    run = real(run)
    return run.with_name(run.name + ".journal")


def encode(run_id: str, record: Entry, state: Arrays | None = None) -> bytes:
    """Return a record as it is in the journal; `state`: that after a generation."""
    columns, data = records.flat(state or {})
    parts = (record.kind, record.generation, _packed(record.columns), record.data, _packed(columns), data)
    payload = _encoder.encode(parts)
    head = HEAD.pack(len(payload), bytes.fromhex(run_id), bytes.fromhex(record.before), zlib.crc32(payload))
    return b"".join((head, SEAL.pack(zlib.crc32(head)), payload))


@lru_cache(maxsize=64)  # all generations of a run have the same columns
def _packed(columns: Columns) -> msgspec.Raw:
    return msgspec.Raw(_encoder.encode(columns))


@dataclass(frozen=True)
class JournalContents:
    """The contents of a journal."""

    run_id: str = ""
    records: list[Entry] = field(default_factory=list)  # the complete ones before the first fault, oldest first
    state: Mapping[str, Any] = field(default_factory=dict)  # after the last generation of these
    damaged: bool = False  # more than a short last record is wrong
    unread: int = 0  # bytes after the last complete record
    cut: bool = False  # it ends within a record, or before its first one
    missing: bool = False


def read(run: Path) -> JournalContents:
    """Read the journal beside a run file up to its first fault; a missing journal is empty."""
    path = path_of(run)
    try:
        number = open_plain(path)
    except FileNotFoundError:
        return JournalContents(missing=True)
    with damage_reported(path), open(number, "rb") as file:
        return _parse(file.read())


def _parse(data: bytes) -> JournalContents:
    if not data.startswith(MAGIC):
        cut = MAGIC.startswith(data)
        return JournalContents(damaged=not cut, unread=len(data), cut=cut)
    complete: list[Entry] = []
    state: Mapping[str, Any] = {}
    place, run_id, damaged = len(MAGIC), "", False
    while len(data) - place >= STEP:
        head = data[place : place + HEAD.size]
        length, own, before, crc = HEAD.unpack(head)
        payload = data[place + STEP : place + STEP + length]
        damaged = data[place + HEAD.size : place + STEP] != SEAL.pack(zlib.crc32(head))
        damaged = damaged or own.hex() != (run_id or own.hex())
        if damaged or len(payload) < length:
            break  # a short record was cut by a kill
        try:
            if zlib.crc32(payload) != crc:
                raise ValueError("wrong checksum")
            record, after = _record_of(before.hex(), payload)
        except (LookupError, TypeError, ValueError):  # msgspec's errors are ValueErrors
            damaged = True
            break
        run_id, state = own.hex(), after or state
        complete.append(record)
        place += STEP + length
    return JournalContents(run_id, complete, state, damaged, len(data) - place, not damaged and place < len(data))


def _record_of(before: str, payload: bytes) -> tuple[Entry, Mapping[str, Any]]:
    """Return the record of a payload and its state; raise a ValueError if the state has another digest."""
    kind, generation, columns, data, state_columns, state_data = _decoder.decode(payload)
    record, state = Entry(kind, generation, before, columns, data), records.named(state_columns, state_data)
    if kind == "generation" and record.after != records.state_sha256(state):
        raise ValueError("the state after a generation has another digest")
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
        self._run_id = run_id
        self._fsync = fsync
        fresh = self._path.with_name(self._path.name + ".new")
        fresh.unlink(missing_ok=True)  # a link that somebody placed there is not followed
        self._file = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self.size = 0  # bytes
        try:
            self.append_bytes(MAGIC)
            os.replace(fresh, self._path)
        except OSError:
            os.close(self._file)
            fresh.unlink(missing_ok=True)
            raise
        with suppress(OSError):  # the file is in place, and commits must go to it
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

    def append(self, record: Entry, state: Arrays | None = None) -> None:
        """Append one record; `state`: that after a generation."""
        self.append_bytes(encode(self._run_id, record, state))

    def close(self) -> None:
        """Close the file and keep it."""
        os.close(self._file)


@contextmanager
def write_errors(path: Path, advice: str = "") -> Iterator[None]:
    """Turn an OSError into a RunFileError; `advice`: its last sentence."""
    try:
        yield
    except RunFileError:
        raise
    except OSError as error:
        why = f"{error.strerror or error}{'. ' * bool(advice)}{advice}"
        raise RunFileError(f"cannot write {path}: {why}") from None


def occupy_streams() -> None:
    """Open /dev/null in place of a closed stdin, stdout or stderr: a file with its number would get all output."""
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(number)


def sync_folder(path: Path) -> None:
    """Write a rename in a folder to disk, so that it survives a crash of the machine."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
