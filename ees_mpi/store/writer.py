"""The one writer of a run file, on rank 0."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.config import Config
from ees_mpi.errors import RunFileError
from ees_mpi.noise import Noise
from ees_mpi.outcomes import Arrays
from ees_mpi.store import hdf5, journal, layout
from ees_mpi.store.lock import Lock
from ees_mpi.store.reader import open_run
from ees_mpi.version import __version__

FOLD_SHARE = 20  # folds take at most one part in this many of the time
FOLD_BYTES = 64 << 20  # of journal, after which it is folded whatever the time: rank 0 holds about as much


@dataclass(frozen=True)
class Contents:
    """The contents of a run file that a new writer continues."""

    run_id: str
    sessions: list[dict[str, Any]]
    state: Arrays
    partial: Arrays  # results of the next generation from before an interruption


class RunWriter:
    """Holds a run file, commits generations to it and folds them in; made by `create` or `resume`."""

    def __init__(self, path: Path, lock: Lock, run_id: str, config: Config, sessions: int):
        self.path = path
        self._lock = lock
        self._run_id = run_id
        self._config = config
        self._fields = layout.present(layout.axis_sizes(config))
        self._sessions = sessions
        self._records: list[dict[str, Any]] = []
        self._journal = journal.JournalWriter(path, run_id, config.run.fsync)
        self._next_fold = time.monotonic() + 60 * config.run.fold_minutes
        self._fold_at = FOLD_BYTES
        self._warning: str | None = None

    @classmethod
    def create(
        cls,
        path: Path,
        config: Config,
        state: Arrays,
        overwrite: bool = False,
        force: bool = False,
        kind: str = "run",
        started_from: str = "",
        run_id: str = "",
    ) -> "RunWriter":
        """Start a new file; `kind`: run or sample; `started_from`: JSON, where its first means came from."""
        path = path.resolve()  # a link stays a link
        lock = Lock(path, force)
        try:
            if path.exists() and not overwrite:
                raise exists(path)
            run_id = run_id or new_run_id()
            noise = Noise(config.noise_seed, config.noise.size)
            attributes = {
                "format": layout.FORMAT,
                "format_version": layout.FORMAT_VERSION,
                "run_id": run_id,
                "program": f"ees_mpi {__version__}",
                "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "config": config.to_toml(),
                "seed": np.int64(config.run.seed),
                "noise_seed": np.int64(noise.seed),
                "noise_size": np.int64(noise.size),
                "noise_digest": noise.digest(),
                "kind": kind,
                "started_from": started_from,
            }
            with writing(path):
                hdf5.create(path, layout.axis_sizes(config), attributes, state)
                return cls(path, lock, run_id, config, sessions=0)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def resume(cls, path: Path, config: Config, force: bool = False) -> "tuple[RunWriter, Contents]":
        """Lock a run file, fold the journal of its last writer, and return a new writer and the contents."""
        path = path.resolve()
        lock = Lock(path, force)
        try:
            found = repair(path)
            with writing(path):
                return cls(path, lock, found.run_id, config, len(found.sessions)), found
        except BaseException:
            lock.release()
            raise

    def begin_session(self, first_generation: int, ranks: int, nodes: int, machine: dict[str, str]) -> None:
        """Note who writes from here on."""
        record = {
            "kind": "session",
            "session": self._sessions,
            "start": time.time(),
            "first_generation": first_generation,
            "ranks": ranks,
            "nodes": nodes,
            "host": os.uname().nodename,
            "machine": machine,
            "config": self._config.to_toml(),
        }
        with writing(self.path):
            self._journal.append(record)
        self._records.append(record)

    def commit(self, generation: int, arrays: Arrays, state: Arrays) -> None:
        """Make a generation part of the run: from here on no kill can lose it."""
        row = {name: np.asarray(arrays[name], field.dtype) for name, field in self._fields.items()}
        record = {"kind": "generation", "generation": generation, "arrays": row, "state": state}
        with writing(self.path):
            self._journal.append(record)
        for older in self._records[-1:]:
            older.pop("state", None)  # only the last one's is folded in
        self._records.append(record)
        if time.monotonic() > self._next_fold or self._journal.size > self._fold_at:
            self._fold_on_the_way()

    def _fold_on_the_way(self) -> None:
        start = time.monotonic()
        try:
            self.fold()
        except OSError as error:  # the journal still has everything
            self._warning = f"could not fold the journal into {self.path} ({error}); trying again later"
        taken = time.monotonic() - start
        self._next_fold = start + max(60 * self._config.run.fold_minutes, FOLD_SHARE * taken)
        self._fold_at = self._journal.size + FOLD_BYTES

    def save_partial(self, generation: int, rows: NDArray[Any], observations: NDArray[Any]) -> None:
        """Keep the outcomes of a generation that a stop cut short, so that they need not be evaluated again."""
        arrays = {"rows": rows, "observations": observations}
        record = {"kind": "partial", "generation": generation, "arrays": arrays}
        with writing(self.path):
            self._journal.append(record)
        self._records.append(record)

    def take_warning(self) -> str | None:
        """Return, once, what went wrong without harm."""
        warning, self._warning = self._warning, None
        return warning

    def fold(self) -> None:
        """Put all that is committed into the HDF5 file, and begin a new journal."""
        hdf5.fold(self.path, self._records)
        # The new journal first: where it cannot be made, commits go on into the old one.
        old, self._journal = self._journal, journal.JournalWriter(self.path, self._run_id, self._config.run.fsync)
        old.close()
        self._records = []

    def let_go(self) -> None:
        """Leave the run file as a kill would, for another to go on with: all that is committed is in the journal."""
        self._journal.close()
        self._lock.release()

    def close(self) -> None:
        """Fold, remove the journal and let go of the run file; what cannot be folded stays in the journal."""
        try:
            with writing(self.path):
                self.fold()
            self._journal.remove()
        finally:
            self._journal.close()
            self._lock.release()


def new_run_id() -> str:
    """Return a name that no other run has."""
    return os.urandom(16).hex()


def repair(path: Path) -> Contents:
    """Fold the journal of a killed run, and return the contents of the file; the caller holds the lock."""
    with open_run(path) as run:
        run.check_noise(Noise(run.config.noise_seed, run.config.noise.size))
        found = Contents(run.run_id, run.sessions(), run.state_arrays(), run.partial())
        left = run.journal_records
        keep = run.journal.damaged or (run.journal.run_id not in ("", found.run_id))
    beside = journal.path_of(path)
    with writing(path):
        if left:
            hdf5.fold(path, left)
        if keep:  # a journal that was not read completely is never deleted
            os.replace(beside, beside.with_name(beside.name + ".kept"))
        for name in (beside.name, f"{beside.name}.new", f"{path.name}.folding"):
            path.with_name(name).unlink(missing_ok=True)
    return found


def repair_alone(path: Path) -> None:
    """Fold what a killed run left behind, as a command of its own."""
    path = path.resolve()
    with open_run(path):
        pass  # say that it is no run file before locking anything
    lock = Lock(path)
    try:
        repair(path)
    finally:
        lock.release()


def exists(path: Path) -> RunFileError:
    """Say that a file is in the way."""
    return RunFileError(f"{path} exists already; use --resume to go on with it, --overwrite to begin anew")


def check_folder(path: Path) -> None:
    """Refuse a path at which no file can be made."""
    if path.is_dir():
        raise RunFileError(f"{path} is a folder; expected the name of a run file, for example {path}/run.h5")
    if path.exists() and not path.is_file():
        raise RunFileError(f"{path} is not a plain file; expected the name of a run file")
    if not path.parent.is_dir():
        raise RunFileError(f"the folder {path.parent} does not exist; make it first")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure of the file system into an error that says what is safe."""
    try:
        yield
    except RunFileError:
        raise
    except OSError as error:
        safe = "All committed generations are safe; `ees-mpi resume` goes on from there once this is mended"
        raise RunFileError(f"cannot write {path}: {error.strerror or error}. {safe if path.exists() else ''}") from None
