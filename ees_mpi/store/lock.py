"""One writer per run file: a lock on `RUN.h5.lock`, which names who holds it.

Where the file system has no locks, the holder touches the file every few seconds, and a newcomer that sees it
being touched stays out; one that is no longer touched needs `--force`.
"""

import errno
import fcntl
import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

from ees_mpi.errors import RunFileError

PATIENCE = 5.0  # seconds to wait for a dying holder
BEAT = 2.0  # seconds between signs of life, where there are no locks
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
HELD = (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN)


class Lock:
    """The right to write one run file, held from construction to `release`."""

    def __init__(self, run: Path, force: bool = False):
        self._run = run
        self._path = run.with_name(run.name + ".lock")
        self._stop = threading.Event()
        self._beat: threading.Thread | None = None
        deadline = time.monotonic() + PATIENCE
        while not self._try(force):
            if time.monotonic() > deadline:
                raise RunFileError(f"{run} is being written by {self._holder()}; wait for it, or stop it first")
            time.sleep(0.1)
        self._sign()

    def _try(self, force: bool) -> bool:
        """Take the lock, or return False where another process holds it."""
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise RunFileError(f"cannot write beside {self._run}: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in HELD:
                os.close(self._file)
                return False
            if error.errno not in NO_LOCKS:
                raise RunFileError(f"cannot lock {self._path}: {error.strerror}") from None
            return self._try_without_locks(force)
        if self._is_current():
            return True
        os.close(self._file)  # its last holder removed it between our opening and our locking it
        return False

    def _is_current(self) -> bool:
        try:
            return os.stat(self._path).st_ino == os.fstat(self._file).st_ino
        except FileNotFoundError:
            return False

    def _try_without_locks(self, force: bool) -> bool:
        if os.fstat(self._file).st_size and not force:
            before = os.fstat(self._file).st_mtime_ns
            time.sleep(2 * BEAT)
            alive = os.stat(self._path).st_mtime_ns != before
            holder = self._holder()
            os.close(self._file)
            if alive:
                return False
            raise RunFileError(
                f"{self._run} was being written by {holder}, which shows no sign of life; this file system has no "
                "locks to be sure. If it is gone, use --force"
            )
        self._beat = threading.Thread(target=self._touch, daemon=True)
        self._beat.start()
        return True

    def _touch(self) -> None:
        while not self._stop.wait(BEAT):
            os.utime(self._path)

    def _sign(self) -> None:
        job = os.environ.get("SLURM_JOB_ID")
        who: dict[str, Any] = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "job": job,
            "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        }
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, json.dumps(who).encode(), 0)

    def _holder(self) -> str:
        try:
            who = json.loads(self._path.read_text())
            job = f", SLURM job {who['job']}" if who["job"] else ""
            return f"process {who['pid']} on {who['host']}{job} (since {who['since']})"
        except (OSError, ValueError, KeyError):
            return "another process"

    def release(self) -> None:
        """Give the lock back and remove its file."""
        self._stop.set()
        if self._beat:
            self._beat.join()
        self._path.unlink(missing_ok=True)
        os.close(self._file)
