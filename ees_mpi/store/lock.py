"""One writer per run file: a lock on `RUN.h5.lock`, which names who holds it.

The holder also touches the file every few seconds. Where the file system has no locks, or has them within a node
only, a newcomer that sees it being touched stays out; without locks, one that is no longer touched needs `--force`.
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
BEAT = 2.0  # seconds between signs of life
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
HELD = (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN)


class Lock:
    """The right to write one run file, held from construction to `release`."""

    def __init__(self, run: Path, force: bool = False):
        self._run = run
        self._path = run.with_name(run.name + ".lock")
        deadline = time.monotonic() + PATIENCE
        try:
            while not self._take(force):
                if time.monotonic() > deadline:
                    raise RunFileError(f"{run} is being written by {self._holder()}; wait for it, or stop it first")
                time.sleep(0.1)
        except OSError as error:
            if isinstance(error, RunFileError):
                raise
            raise RunFileError(f"cannot write beside {run}: {error.strerror}") from None
        self._stop = threading.Event()
        self._beat = threading.Thread(target=self._touch, daemon=True)
        self._beat.start()

    def _take(self, force: bool) -> bool:
        """Take the lock and sign it, or return False where another process holds it."""
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            if self._locked(force) and self._is_current():
                self._sign()
                return True
        except OSError:
            os.close(self._file)
            raise
        os.close(self._file)
        return False

    def _locked(self, force: bool) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in HELD:
                return False
            if error.errno not in NO_LOCKS:
                raise
            return self._claimed_without_locks(force)
        # Some file systems lock within a node only: another node's writer shows by its touching the file.
        return not (self._signed_elsewhere() and self._is_touched())

    def _claimed_without_locks(self, force: bool) -> bool:
        if os.fstat(self._file).st_size and not force:
            if self._is_touched():
                return False
            raise RunFileError(
                f"{self._run} was being written by {self._holder()}, which shows no sign of life; this file system has "
                "no locks to be sure. If it is gone, use --force"
            )
        return True

    def _signed_elsewhere(self) -> bool:
        signed = os.pread(self._file, 4096, 0)
        try:
            return bool(signed) and json.loads(signed)["host"] != socket.gethostname()
        except (ValueError, KeyError, TypeError):
            return False

    def _is_touched(self) -> bool:
        """Watch for a sign of life; the clocks of two machines need not agree for that."""
        before = os.fstat(self._file).st_mtime_ns
        time.sleep(2 * BEAT)
        return os.fstat(self._file).st_mtime_ns != before

    def _is_current(self) -> bool:
        """Tell whether the file is still in its place: its last holder may have removed it before we locked it."""
        try:
            return os.stat(self._path).st_ino == os.fstat(self._file).st_ino
        except FileNotFoundError:
            return False

    def _touch(self) -> None:
        while not self._stop.wait(BEAT):
            try:
                os.utime(self._file)
            except OSError:
                continue  # a sign of life may fail now and then

    def _sign(self) -> None:
        who: dict[str, Any] = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "job": os.environ.get("SLURM_JOB_ID"),
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
        self._beat.join()
        self._path.unlink(missing_ok=True)
        os.close(self._file)
