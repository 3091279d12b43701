"""The writer of a run file. There is one, which holds the lock."""

import os
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import h5py
import numpy as np

from ees_mpi.errors import RunFileError
from ees_mpi.store import hdf5, journal
from ees_mpi.store.files import (
    beside,
    damage_reported,
    hdf5_errors,
    replacement,
    sync,
    write_errors,
)
from ees_mpi.store.journal import JournalWriter, Record
from ees_mpi.store.layout import Array, Arrays, Layout
from ees_mpi.store.lock import Lock
from ees_mpi.store.reader import Reader, read_arrays

SAFE = "All committed generations are safe, and the run can be resumed after this is fixed"  # after a failed write
FOLD_SHARE = 20  # folds take at most 1 / FOLD_SHARE of the time
FOLD_BYTES = 64 << 20  # of the journal, after which it is folded


def create(
    path: Path,
    arrays: Iterable[Array],
    sizes: Mapping[str, int],
    attributes: hdf5.Attributes,
    state: Arrays,
    after: str,
    clock: str,
    fsync: bool = True,
    fold_minutes: float = 5.0,
    overwrite: bool = False,
    force: bool = False,
) -> "Writer":
    """Create a run file, and return its writer; `overwrite`: also in place of one that has generations.

    after: the array with the digest of the state after a generation; clock: that with the time of its commit
    """
    path, layout = path.resolve(), Layout(arrays, sizes)
    own = {"format": hdf5.FORMAT, "run_id": os.urandom(16).hex(), "after": after, "clock": clock, **layout.texts()}
    everything = {**attributes, **own, "format_version": hdf5.VERSION}
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    lock = Lock(path, force)
    try:
        with write_errors(path):
            if not overwrite:
                _make_room(path)
            with replacement(path) as fresh:
                with hdf5_errors():
                    hdf5.create(fresh, layout, everything, state)
                _check_written(fresh)
                journal.path_of(path).unlink(missing_ok=True)  # no file is ever beside the journal of another run
            return Writer(path, lock, fsync, fold_minutes)
    except BaseException:
        lock.release()
        raise


def _make_room(path: Path) -> None:
    """Raise a RunFileError if a run is there; rename the journal of one whose file was deleted."""
    if not path.exists():
        set_aside(path, "other-run")
    elif has_generations(path):
        raise RunFileError(
            f"{path} exists now: another process has created it while this one was starting. To continue it, run the "
            "command with --resume again"
        )


def has_generations(path: Path) -> bool:
    """Return False if a file is a run whose first generation has failed or was killed: a new run may replace it."""
    try:
        with Reader(path) as reader:
            return reader.generations > 0
    except RunFileError:
        return True


def resume(path: Path, fsync: bool = True, fold_minutes: float = 5.0, force: bool = False) -> "Writer":
    """Fold the journal of the last writer of a run file, and return a new writer."""
    path = path.resolve()
    lock = Lock(path, force)
    try:
        warning = fold_journal(path, closed=False)
        with write_errors(path, SAFE):
            return Writer(path, lock, fsync, fold_minutes, warning)
    except BaseException:
        lock.release()
        raise


def repair(path: Path) -> str:
    """Fold the journal of a killed writer; return a sentence about one that is not whole."""
    path = path.resolve()
    Reader(path, allow_damaged_journal=True).close()  # an error before anything is locked
    lock = Lock(path)
    try:
        return fold_journal(path, closed=True)
    finally:
        lock.release()


class Writer:
    """Commits generations to a run file; made by `create` and `resume`."""

    def __init__(self, path: Path, lock: Lock, fsync: bool, fold_minutes: float, warning: str = ""):
        self.path, self._lock, self._fsync, self._fold_minutes, self._warning = path, lock, fsync, fold_minutes, warning
        self._advice = SAFE if fsync else ""  # without it, the disk may refuse later what it has accepted
        began = time.monotonic()
        with Reader(path) as reader:
            self.layout, self.attributes, self.generations = reader.layout, reader.attributes, reader.generations
            self.state, self.sessions = reader.state_arrays(), reader.sessions()  # when this writer began
            self._records, self._after = reader.counts["records"], reader.counts["after"]
            self._journal = JournalWriter(path, reader.run_id, fsync)
            if reader.closed:
                fold(reader, closed=False)  # after the journal is there: from now on, a missing one is told
        self._fold_later(began)

    def _fold_later(self, began: float) -> None:
        taken = time.monotonic() - began
        self._next_fold = began + max(60 * self._fold_minutes, FOLD_SHARE * taken)
        self._fold_at = self._journal.size + FOLD_BYTES

    def begin_session(self, values: hdf5.Attributes) -> None:
        """Note who writes from now on."""
        now = {"start": time.time(), "first_generation": self.generations}
        self._append(Record(self._records, "session", self._after, self._after, {**now, **values}))

    def change(self, attributes: hdf5.Attributes) -> None:
        """Change attributes of the file."""
        self._append(Record(self._records, "attributes", self._after, self._after, attributes))
        self.attributes |= attributes

    def append(self, record: Arrays, state: Arrays) -> None:
        """Commit a generation, and the state after it: after this call, a kill cannot lose it."""
        row = self.layout.pack(record)
        after = np.asarray(record[self.attributes["after"]]).item().decode("ascii")
        self._append(Record(self._records, "generation", self._after, after, row=row, state=state))
        self.generations += 1
        if time.monotonic() > self._next_fold or self._journal.size > self._fold_at:
            self._fold_between_commits()

    def _append(self, record: Record) -> None:
        with write_errors(self.path, self._advice):
            self._journal.append(record)
        self._records, self._after = record.number + 1, record.after

    def _fold_between_commits(self) -> None:
        began = time.monotonic()
        try:
            self.fold()
        except OSError as error:  # the journal still has everything
            self._warning = f"could not fold the journal into {self.path} ({error}); trying again later"
            self._fold_later(began)

    def pop_warning(self) -> str:
        """Return the last warning, once."""
        warning, self._warning = self._warning, ""
        return warning

    def fold(self) -> None:
        """Write all committed generations to the HDF5 file, and begin a new journal."""
        began, old = time.monotonic(), self._journal
        self._fold(closed=False)
        # If this fails, commits continue in the old journal.
        self._journal = JournalWriter(self.path, self.attributes["run_id"], self._fsync)
        self._fold_later(began)
        old.close()

    def _fold(self, closed: bool) -> None:
        newest = f"{self.path.name}.journal"
        if not self.path.exists():
            raise RunFileError(
                f"{self.path} was removed or moved while this run was writing. Its newest generations are in {newest}. "
                "If the file was moved, it can be resumed: put the journal beside it, as NAME.h5.journal"
            )
        with Reader(self.path, allow_damaged_journal=True, contents=self._journal.contents()) as reader:
            if reader.run_id != self.attributes["run_id"] or reader.generations != self.generations:
                raise RunFileError(
                    f"{self.path} now holds another run: it was replaced while this run was writing. It is left as it "
                    f"is; the newest generations of this run are in {newest}"
                )
            fold(reader, closed)

    def release(self) -> None:
        """Release the run file without folding; the journal holds all that is committed."""
        self._journal.close()
        self._lock.release()

    def close(self) -> None:
        """Fold, delete the journal and release the run file; after an error the journal stays."""
        try:
            with write_errors(self.path, self._advice):
                self._fold(closed=True)
            journal.path_of(self.path).unlink(missing_ok=True)
        finally:
            self.release()


def fold(reader: Reader, closed: bool) -> None:
    """Replace a run file by a copy that has all that a reader sees; closed: no journal belongs to it."""
    path, new, state = reader.path.resolve(), reader.journal_records, reader.state_arrays()
    sessions = [record.values for record in new if record.kind == "session"]
    counts = {
        "records": reader.counts["records"] + len(new),
        "generations": reader.generations,
        "sessions": reader.counts["sessions"] + len(sessions),
        "after": new[-1].after if new else reader.counts["after"],
        "closed": int(closed),
    }
    with replacement(path) as fresh:
        shutil.copyfile(path, fresh)
        shutil.copymode(path, fresh)
        reserve(fresh, hdf5.growth(reader.layout, reader.newer, state))
        with damage_reported(path), hdf5_errors(), h5py.File(fresh, "r+", libver=hdf5.LIBVER, locking=False) as file:
            if len(reader.newer):
                hdf5.append_rows(file, reader.layout, reader.folded, reader.newer)
            group = hdf5.member(file, "sessions", h5py.Group)
            for number, values in enumerate(sessions, reader.counts["sessions"]):
                hdf5.write_attributes(group.create_group(str(number)), values)
            if any(record.kind == "attributes" for record in new):
                hdf5.write_attributes(file, reader.attributes)
            hdf5.write_final(file, counts, state)
        _check_written(fresh)


def _check_written(path: Path) -> None:
    """Open a file that is complete, and read its state: versions of HDF5 have written files that nobody could open."""
    try:
        with Reader(path) as reader:
            reader.state_arrays()
    except RunFileError as error:
        version = h5py.version.hdf5_version
        raise RunFileError(f"HDF5 {version} has written a file that it cannot read: {error}") from None


def fold_journal(path: Path, closed: bool) -> str:
    """Fold the journal of a killed writer, and return a sentence about one that is not whole; the caller has the lock.

    A journal that was not read to its end is never deleted.
    """
    with Reader(path, allow_damaged_journal=True) as reader:
        reader.check_last()
        of_journal = reader.damage or reader.cut
        of_file = "" if closed else reader.damages_in_words()
        why = "damaged" if reader.journal.damaged else "other-run"
        with write_errors(path, "" if reader.damage else SAFE):
            if reader.journal_records or (closed and not reader.closed):
                fold(reader, closed)
            if reader.damage:
                of_journal += f"; it is now {set_aside(path, why)}"
    for ending in ("journal", "journal.new", "folding") if closed else ():
        beside(path, ending).unlink(missing_ok=True)
    if of_file:
        of_file = f"{path} is damaged: {of_file}. The run goes on without them"
    return ". ".join(filter(None, (of_journal, of_file)))


def set_aside(run: Path, why: str) -> Path | None:
    """Rename the journal of a run to a name that says why it is not used; return that name."""
    path = journal.path_of(run)
    if not os.path.lexists(path):
        return None
    name, number = beside(path, why), 2
    while os.path.lexists(name):
        name, number = beside(path, f"{why}-{number}"), number + 1
    os.replace(path, name)
    return name


def reserve(path: Path, more: int) -> None:
    """Allocate disk space behind a file: HDF5 crashes on a full disk, and truncates what it does not need."""
    with open(path, "ab") as raw:
        os.posix_fallocate(raw.fileno(), os.fstat(raw.fileno()).st_size, more)


def write_arrays(path: Path, kind: str, attributes: hdf5.Attributes, arrays: Arrays) -> None:
    """Write a small file of arrays by path; `kind`: its format. `reader.read_arrays` reads it."""
    with hdf5_errors(), hdf5.new_file(path) as file:
        everything = {**attributes, "format": kind, "format_version": hdf5.VERSION}
        hdf5.write_arrays(file, arrays, everything)
    read_arrays(path, kind)
    sync(path)
