"""The writer of a run file. There is one, on rank 0."""

import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi.config import Config
from ees_mpi.errors import RunFileError
from ees_mpi.machine import PROGRAM, commit
from ees_mpi.noise import Noise
from ees_mpi.outcomes import Arrays
from ees_mpi.store import fold, journal, layout, records
from ees_mpi.store.fold import SAFE, Continued, fold_journal
from ees_mpi.store.lock import Lock
from ees_mpi.store.reader import is_study, open_run
from ees_mpi.store.records import Entry
from ees_mpi.store.safety import real

FOLD_SHARE = 20  # folds take at most 1 / FOLD_SHARE of the time
CHECK = "Without run.fsync, the newest generations may be lost: `ees-mpi info` counts those that are in the file"
FOLD_BYTES = 64 << 20  # of the journal, after which it is folded: rank 0 holds as much in memory


class RunWriter:
    """Holds the lock of a run file, and commits generations to it; made by `create` or `resume`."""

    def __init__(
        self, path: Path, lock: Lock, run_id: str, config: Config, names: Iterable[str], number: int, before: str
    ):
        self.path = path
        self._lock = lock
        self._run_id = run_id
        self._config = config
        self._columns = layout.columns(names, config, layout.axis_sizes(config))
        self._types = [(name, np.dtype(dtype)) for name, dtype, _ in self._columns]
        self._row_bytes = sum(np.dtype((dtype, shape)).itemsize for _, dtype, shape in self._columns)
        self._number = number  # of the next session
        self._before = before  # state_sha256 before the next generation
        self._generation = 0  # the next one
        self._records: list[Entry] = []
        self._state: Arrays = {}  # after the last of them
        self._journal = journal.JournalWriter(path, run_id, config.run.fsync)
        self._next_fold = time.monotonic() + 60 * config.run.fold_minutes
        self._fold_at = FOLD_BYTES
        self._warning: str | None = None
        self._resumable = True  # False: a sample, which is in place when it is complete

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
    ) -> "RunWriter":
        """Create a new file.

        kind: run or study; started_from: JSON about the run that the means come from
        """
        path = real(path)  # keeps a symbolic link
        with journal.write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        lock = Lock(path, force)
        try:
            if path.exists() and not overwrite:
                if has_results(path):
                    raise RunFileError(
                        f"{path} exists now: another process has created it while this one was starting. To continue "
                        "it, run the command with --resume again"
                    )
                overwrite = True
            run_id = os.urandom(16).hex()
            noise = Noise(config.noise_seed, config.noise.size)
            attributes = {
                "format": layout.FORMAT,
                "format_version": layout.FORMAT_VERSION,
                "run_id": run_id,
                "program": PROGRAM,
                "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "config": config.to_toml(),
                "seed": np.int64(config.run.seed),
                "noise_seed": np.int64(noise.seed),
                "noise_size": np.int64(noise.size),
                "noise_digest": noise.digest(),
                "kind": kind,
                "started_from": started_from,
                "closed": np.int64(False),
            }
            with journal.write_errors(path):
                if not overwrite:
                    journal.set_aside(path, "other-run")  # left by a run whose file was deleted
                names = list(layout.present(config))
                fold.create(path, config, attributes, state, names)
                writer = cls(path, lock, run_id, config, names, 0, records.state_sha256(state))
            writer._resumable = kind == "run"
            return writer
        except BaseException:
            lock.release()
            raise

    @classmethod
    def resume(cls, path: Path, config: Config, force: bool = False) -> "tuple[RunWriter, Continued]":
        """Lock a run file, fold the journal of its last writer, and return a new writer and the contents."""
        path = real(path)
        lock = Lock(path, force)
        try:
            contents = fold_journal(path, closed=False)
            with journal.write_errors(path, SAFE):
                number, before = len(contents.sessions), records.state_sha256(contents.state)
                writer = cls(path, lock, contents.run_id, config, contents.names, number, before)
                if contents.closed:  # from now on, the journal belongs to it
                    fold.fold(path, [], {}, contents.run_id, closed=False)
            writer._generation = int(contents.state["generation"])
            old = f"{path} is damaged: wrong checksums in {contents.damaged}. The run goes on without them"
            writer._warning = ". ".join(filter(None, (contents.warning, old if contents.damaged else ""))) or None
            return writer, contents
        except BaseException:
            lock.release()
            raise

    def begin_session(
        self, first_generation: int, ranks: int, nodes: int, machine: dict[str, str], began: float | None = None
    ) -> None:
        """Note the ranks and the machine that write from now on; `began`: before the rows were evaluated."""
        values = {
            "session": self._number,
            "start": began or time.time(),
            "first_generation": first_generation,
            "ranks": ranks,
            "nodes": nodes,
            "host": os.uname().nodename,
            "machine": json.dumps({**machine, "commit": commit()}),
            "config": self._config.to_toml(),
        }
        self._note("session", first_generation, values)
        self._number += 1

    def note_config(self, config: Config) -> None:
        """Change the config in the file, for example after a loop whose length was not known."""
        self._note("config", self._generation, {"config": config.to_toml()})

    def _note(self, kind: str, generation: int, values: Mapping[str, Any]) -> None:
        columns, data = records.flat(records.arrays_of(values))
        self._append(Entry(kind, generation, self._before, columns, data))

    def _append(self, record: Entry, state: Arrays | None = None) -> None:
        with journal.write_errors(self.path, self._advice):
            journal.occupy_streams()  # the code of the user may have closed one; the next fold opens files
            self._journal.append(record, state)
        self._records.append(record)

    @property
    def _advice(self) -> str:
        """The advice after a write that failed. Without fsync, the disk may refuse later what it first accepted."""
        advice = SAFE if self._config.run.fsync else CHECK
        return advice if self._resumable and self.path.exists() else ""

    def commit(self, generation: int, arrays: Arrays, state: Arrays) -> None:
        """Add a generation to the run; after this call, a kill cannot lose it."""
        parts: list[Any] = [np.asarray(arrays[name], kind, order="C") for name, kind in self._types]
        data = b"".join(parts)
        if len(data) != self._row_bytes:
            raise ValueError(f"generation {generation} has {len(data)} bytes; expected {self._row_bytes}")
        record = Entry("generation", generation, self._before, self._columns, data)
        self._append(record, state)
        self._state, self._before, self._generation = state, record.after, generation + 1
        if time.monotonic() > self._next_fold or self._journal.size > self._fold_at:
            self._fold_between_commits()

    def _fold_between_commits(self) -> None:
        start = time.monotonic()
        try:
            self.fold()
        except OSError as error:  # the journal still has everything
            self._warning = f"could not fold the journal into {self.path} ({error}); trying again later"
        taken = time.monotonic() - start
        self._next_fold = start + max(60 * self._config.run.fold_minutes, FOLD_SHARE * taken)
        self._fold_at = self._journal.size + FOLD_BYTES

    def pop_warning(self) -> str | None:
        """Return the last warning, once."""
        warning, self._warning = self._warning, None
        return warning

    def fold(self) -> None:
        """Write all committed generations to the HDF5 file, and begin a new journal."""
        self._fold(closed=False)
        # The new journal is opened first: if that fails, commits continue in the old one.
        old, self._journal = self._journal, journal.JournalWriter(self.path, self._run_id, self._config.run.fsync)
        old.close()
        self._records = []

    def _fold(self, closed: bool) -> None:
        fold.fold(self.path, self._records, self._state, self._run_id, closed)

    def release(self) -> None:
        """Release the run file without folding; the journal holds all that is committed."""
        self._journal.close()
        self._lock.release()

    def close(self) -> None:
        """Fold, delete the journal and release the run file; after an error the journal stays."""
        try:
            with journal.write_errors(self.path, self._advice):
                self._fold(closed=True)
            journal.path_of(self.path).unlink(missing_ok=True)
        finally:
            self.release()


def has_results(path: Path) -> bool:
    """Return False if a file is a run whose first generation has failed or was killed: a new run may replace it."""
    try:
        with open_run(path) as run:
            return is_study(run) or run.generations > 0
    except RunFileError:
        return True
