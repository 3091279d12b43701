"""Read run files at any time, from any process, without a lock."""

import io
import os
import zlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from ees_mpi.errors import RunFileError
from ees_mpi.store import hdf5, journal
from ees_mpi.store.files import damage_reported, open_plain
from ees_mpi.store.journal import Journal, Record
from ees_mpi.store.layout import CHECKSUMS, GENERATION, Layout

ADVICE = "The rest can be read with open_run and h5py, and `train --from RUN.h5@G` starts from the mean of generation G"


class Series:
    """One array of a run over its generations, read in slices: from the HDF5 file, and the newest from the journal."""

    def __init__(self, reader: "Reader", name: str):
        self._reader, self._name = reader, name
        row = reader.layout.row[name]
        self.shape: tuple[int, ...] = (reader.generations, *row.shape)
        self.dtype: np.dtype[Any] = row.base

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        path = self._reader.path
        return f"<Series of {path}: shape {self.shape}, {self.dtype}; np.asarray or a slice reads it>"

    def __iter__(self) -> Iterator[Any]:
        return (self[generation] for generation in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and not key:
            return self[:]
        first, *rest = key if isinstance(key, tuple) else (key,)
        if isinstance(first, (int, np.integer)):
            generation = self._reader.number_of(int(first))
            return self._reader.rows(self._name, generation, generation + 1)[(0, *rest)]
        if not isinstance(first, slice):
            return np.asarray(self)[key]
        wanted = range(len(self))[first]
        low, high = (min(wanted), max(wanted)) if wanted else (0, -1)
        rows = self._reader.rows(self._name, low, high + 1)
        return rows[:: wanted.step][(slice(None), *rest)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype)


class Reader(Mapping[str, Series]):
    """An open run file: its arrays by name, its attributes, its sessions and its last state."""

    __eq__ = object.__eq__  # a file is equal to itself only; no arrays are compared
    __hash__ = object.__hash__

    def __init__(
        self, path: str | os.PathLike[str], allow_damaged_journal: bool = False, contents: Journal | None = None
    ):
        self.path = Path(path)
        # The journal is read first: if the writer folds in between, records are read twice, but none is missed.
        self.journal = contents or journal.read(self.path)
        self.file = open_hdf5(self.path)
        self._datasets: dict[str, h5py.Dataset] = {}
        try:
            with damage_reported(self.path):
                self._interpret()
            with damage_reported(journal.path_of(self.path)):
                self._add_journal()
            if self.damage and not allow_damaged_journal:
                raise RunFileError(f"{self.damage}. `ees-mpi repair` renames it, and keeps all that can be read")
        except BaseException:
            self.close()
            raise

    def _interpret(self) -> None:
        """Read what the HDF5 file says of itself."""
        check_format(self.file, self.path, hdf5.FORMAT)
        self.attributes = hdf5.read_attributes(self.file)
        self.run_id: str = self.attributes["run_id"]
        self.layout = Layout.of(self.attributes)
        self.counts = hdf5.read_attributes(hdf5.member(self.file, "final", h5py.Group))
        self.folded: int = self.counts["generations"]  # those in the HDF5 file

    def _add_journal(self) -> None:
        """Add the records of the journal that the HDF5 file does not have."""
        if self.journal.run_id not in ("", self.run_id):
            self.journal = journal.read(self.path)  # `--overwrite` may have replaced both files in between
        self.journal_records = self._newer() if self.journal.run_id == self.run_id else []
        rows = b"".join(record.row for record in self.journal_records)
        self.newer = np.frombuffer(rows, self.layout.row)  # a ValueError if a row has another length
        self.generations = self.folded + len(self.newer)
        for record in self.journal_records:
            if record.kind == "attributes":
                self.attributes |= record.values

    def _newer(self) -> list[Record]:
        """Return the records that the HDF5 file does not have; raise an error unless they continue it."""
        after = self.counts["after"]
        new: list[Record] = []
        for record in self.journal.records:
            expected = self.counts["records"] + len(new)
            if record.number > expected:
                raise RunFileError(
                    f"{self.path} and its journal were not copied at the same moment. Copy both again, or move the "
                    "journal away to continue from the file"
                )
            follows = record.before if record.number == expected else record.after
            if follows != after and record.number >= expected - 1:  # the last one that the file has, and all newer ones
                raise ValueError(f"its record {record.number} does not follow the state before it")
            if record.number == expected:
                new.append(record)
                after = record.after
        return new

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def __getitem__(self, name: str) -> Series:
        """Return one array over all generations."""
        self._check_open()
        if name not in self.layout.columns:
            raise KeyError(f"{self.path} has no array {name!r}; it has {', '.join(self)}")
        return Series(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.layout.columns)

    def __len__(self) -> int:
        return len(self.layout.arrays)

    def _ipython_key_completions_(self) -> list[str]:
        """Return the names that the tab key offers after `run["`."""
        return list(self)

    def _check_open(self) -> None:
        if not self.file:
            raise RunFileError(f"{self.path} is closed; open it again with `ees_mpi.open_run`")

    def number_of(self, generation: int) -> int:
        """Return the number of a generation, which may count from the end: -1 is the last one."""
        if not -self.generations <= generation < self.generations:
            raise IndexError(f"generation {generation} is not in {self.path}, which has {self.generations}")
        return range(self.generations)[generation]

    def rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Return some generations of an array; raise a RunFileError if one of them has a wrong checksum."""
        self._check_open()
        newer = self.newer[name][max(start - self.folded, 0) : max(stop - self.folded, 0)]
        stop = min(stop, self.folded)
        if start >= stop:
            return np.array(newer)
        with damage_reported(self.path):
            try:
                folded = self._checked(name, start, stop)
            except OSError:
                bad = in_words(self.damaged(name, start, stop)) or f"{start} to {stop - 1}"
                raise ValueError(f"{name} has wrong checksums in the generations {bad}. {ADVICE}") from None
        return np.concatenate((folded, newer)) if len(newer) else folded

    def _checked(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Return generations of the HDF5 file; raise an OSError if a checksum is wrong, that of HDF5 or ours."""
        rows = np.asarray(self._dataset(name)[start:stop])
        for row, checksum in zip(rows, self._expected(name, start, stop), strict=True):
            if zlib.crc32(row) != checksum:
                raise OSError(f"{name} has a wrong checksum")
        return rows

    def _expected(self, name: str, start: int, stop: int) -> NDArray[np.uint32]:
        """Return the checksums of generations of an array."""
        try:
            rows = self._checksums[start:stop]
        except OSError:  # a part of them is damaged
            rows = self._dataset(CHECKSUMS.name)[start:stop]
        return rows[:, self.layout.columns[name]]

    @cached_property
    def _checksums(self) -> NDArray[np.uint32]:
        return np.asarray(self._dataset(CHECKSUMS.name)[:])

    def _dataset(self, name: str) -> h5py.Dataset:
        if name not in self._datasets:
            row = self.layout.row[name]
            self._datasets[name] = hdf5.stored(self._group, name, row.base.str, (self.folded, *row.shape))
        return self._datasets[name]

    @cached_property
    def _group(self) -> h5py.Group:
        return hdf5.member(self.file, "generations", h5py.Group)

    def damaged(self, name: str, start: int, stop: int) -> list[int]:
        """Return the damaged ones of some generations of an array in the HDF5 file."""
        found: list[int] = []
        for first in range(start, stop, hdf5.CHUNK_ROWS):
            last = min(first + hdf5.CHUNK_ROWS, stop)
            if not self._is_sound(name, first, last):
                found += [number for number in range(first, last) if not self._is_sound(name, number, number + 1)]
        return found

    def _is_sound(self, name: str, start: int, stop: int) -> bool:
        try:
            self._checked(name, start, stop)
        except OSError:
            return False
        return True

    def check_last(self) -> None:
        """Read what a run continues from; raise a RunFileError if it is damaged."""
        for name in self if self.generations else ():
            self.rows(name, max(self.folded - 1, 0), self.generations)  # a fold writes to the chunks of `folded` - 1
        self.state_arrays()
        self.sessions()

    def check_all(self) -> None:
        """Read everything; raise a RunFileError that names what is damaged."""
        if said := self.damages_in_words():
            raise RunFileError(f"{self.path} is damaged: {said}. {ADVICE}")
        self.check_last()

    def damages_in_words(self) -> str:
        """Return the damaged arrays of the HDF5 file with their generations; empty if there are none."""
        with damage_reported(self.path):
            numbers = hdf5.stored(self._group, GENERATION, "<i8", (self.folded,))[()]
            if not np.array_equal(numbers, np.arange(self.folded)):
                raise ValueError("its generations are not numbered from 0")
            bad = {name: in_words(self.damaged(name, 0, self.folded)) for name in self}
        listed = [f"{name} of generations {numbers}" for name, numbers in bad.items() if numbers]
        return f"wrong checksums in {'; '.join(listed):.300}" if listed else ""

    def state_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state after the last committed generation, as named arrays."""
        for record in reversed(self.journal_records):
            if record.kind == "generation":
                return dict(record.state)
        self._check_open()
        with damage_reported(self.path):
            try:
                return hdf5.read_arrays(hdf5.member(self.file, "final", h5py.Group))
            except (ValueError, OSError) as error:
                raise RunFileError(f"{self.path} is damaged: {error}. {ADVICE}") from None

    def sessions(self) -> list[dict[str, Any]]:
        """Return what each writer noted, with its first generation and the time of its last commit."""
        self._check_open()
        with damage_reported(self.path):
            group = hdf5.member(self.file, "sessions", h5py.Group)
            numbers = range(self.counts["sessions"])
            found = [hdf5.read_attributes(hdf5.member(group, str(number), h5py.Group)) for number in numbers]
            found += [dict(record.values) for record in self.journal_records if record.kind == "session"]
            clock = self[self.attributes["clock"]]
            ends = [session["first_generation"] for session in found[1:]] + [self.generations]
            for session, end in zip(found, ends, strict=False):
                session["end"] = float(clock[end - 1]) if end > session["first_generation"] else session["start"]
        return found

    @property
    def closed(self) -> bool:
        """False if the newest generations are in a journal: a writer is at work, or was killed."""
        return bool(self.counts["closed"])

    @property
    def damage(self) -> str:
        """A sentence about a journal that cannot be read to its end, or is of another run; empty if there is none."""
        beside = journal.path_of(self.path)
        if self.journal.damaged:
            return f"{beside} is damaged: {self._unread} cannot be read"
        if self.journal.run_id not in ("", self.run_id):
            return f"{beside} is the journal of another run"
        return ""

    @property
    def cut(self) -> str:
        """A sentence about a journal that ends within a record, as it does while one is written, or that is missing."""
        beside = journal.path_of(self.path)
        if self.journal.missing and not self.closed and not beside.exists():  # a writer may have begun in between
            why = f"{beside} is missing, and the writer has not closed the run file"
            lost = f"generations from {self.generations} on may be lost"
            return f"{why}: {lost}. Move and copy an unfinished run together with its journal"
        if self.damage or not self.journal.cut:
            return ""
        return f"{beside} ends within a record: {self._unread} are ignored"

    @property
    def _unread(self) -> str:
        return f"{self.journal.unread} bytes after generation {self.generations - 1}"


class OpenedFile(io.FileIO):
    """An open file, for `h5py.File`. It is closed when h5py drops it."""

    def __del__(self) -> None:
        self.close()


def open_hdf5(path: Path) -> h5py.File:
    """Open a file, which is not checked yet.

    By its number: HDF5 refuses to open a name that this process has open with another kind of lock.
    """
    if path.is_dir():
        raise RunFileError(f"{path} is a folder; expected a run file")
    try:
        raw = OpenedFile(open_plain(path.resolve()))
    except FileNotFoundError:
        left = journal.path_of(path)
        moved = f", but {left} does: move or copy an unfinished run with its journal" if left.exists() else ""
        raise RunFileError(f"{path} does not exist{moved}; expected a run file") from None
    try:
        return h5py.File(raw, "r")
    except Exception as error:
        why = "is not a readable HDF5 file; expected a run file"
        if "truncated" in str(error):
            why = f"is truncated: more than its {path.stat().st_size} bytes are expected; copy it again"
        elif path.suffix == ".npz":
            takers = "`config`, `measure`, `sample`, `adapt`, `replay` and `train --from`"
            why = f"is a policy, which has no generations; expected a run file. {takers} take policies"
        raise RunFileError(f"{path} {why}") from None


def format_of(path: Path) -> str:
    """Return the format that a file names, of which nothing else is read; raise a RunFileError if it has none."""
    with open_hdf5(path) as file, damage_reported(path):
        return str(_format(file, path)[0])


def _format(file: h5py.File, path: Path) -> tuple[Any, Any]:
    """Return the format that a file names, and its version; raise a RunFileError if it has none."""
    if "format" not in file.attrs or "format_version" not in file.attrs:
        raise RunFileError(f"{path} is HDF5, but not of ees_mpi: expected a run file")
    return hdf5.read_attribute(file.attrs, "format"), hdf5.read_attribute(file.attrs, "format_version")


def check_format(file: h5py.File, path: Path, expected: str) -> None:
    """Raise a RunFileError unless a file has a format, in the version of today."""
    kind, version = _format(file, path)
    if kind != expected:
        raise RunFileError(f"{path} is of the kind {kind!r:.80}; expected a file of the kind {expected!r}")
    if version != hdf5.VERSION:
        raise RunFileError(f"{path} has format {version}; this version of ees_mpi reads format {hdf5.VERSION}")


def read_arrays(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the attributes and the arrays by path of a file of `writer.write_arrays`; `kind`: its format."""
    with open_hdf5(path) as file, damage_reported(path):
        check_format(file, path, kind)
        attributes = hdf5.read_attributes(file)
        attributes.pop("arrays")
        return attributes, hdf5.read_arrays(file)


def in_words(numbers: list[int]) -> str:
    """Return rising numbers as ranges: "0 to 15, 20 to 20"."""
    parts = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1) if numbers else []
    return ", ".join(f"{part[0]} to {part[-1]}" for part in parts)
