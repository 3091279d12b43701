"""The lock of a run file: `RUN.h5.lock`, which names the one process that may write.

The owner holds a flock on it, and changes its time every few seconds, as a heartbeat. A file system may have no flock,
or one within a node only: there, a heartbeat that goes on shows a writer. Where there is no flock, and the heartbeat
has stopped, only the user knows (`force`).
"""

import errno
import fcntl
import json
import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ees_mpi.errors import RunFileError
from ees_mpi.store.files import beside, occupy_streams, open_plain, write_errors

WAIT_SECONDS = 5.0  # for an owner that is about to end
HEARTBEAT_SECONDS = 2.0
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
HELD = (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN)


def path_of(run: Path) -> Path:
    """Return the path of the lock of a run file; that of a symbolic link is beside the file itself."""
    return beside(run.resolve(), "lock")


def read_owner(path: Path) -> dict[str, Any]:
    """Return the owner that a lock file names; empty if it cannot be read."""
    try:
        with open(open_plain(path), "rb") as file:
            owner = json.loads(file.read(4096))
        return {"host": owner["host"], "pid": owner["pid"], "job": owner.get("job"), "since": owner.get("since")}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def is_held(run: Path) -> bool | None:
    """Return whether a process is writing a run file; None if that cannot be told."""
    try:
        with open(open_plain(path_of(run)), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError as error:
        return True if error.errno in HELD else None
    here = socket.gethostname()
    return False if read_owner(path_of(run)).get("host", here) == here else None  # some lock within a node only


class Lock:
    """The lock of one run file, held from construction to `release`."""

    def __init__(self, run: Path, force: bool = False):
        self._run, self._path, self._force = run, path_of(run), force
        deadline = time.monotonic() + WAIT_SECONDS
        with write_errors(self._path):
            while not self._acquire():
                if time.monotonic() > deadline:
                    raise RunFileError(f"{run} is being written by {self._owner()}; wait for it, or stop it first")
                time.sleep(0.1)
        self._stop = threading.Event()
        self._heartbeat = threading.Thread(target=self._send_heartbeats, daemon=True)
        self._heartbeat.start()

    def _acquire(self) -> bool:
        """Lock the file and write the owner to it; return False if another process holds the lock."""
        occupy_streams()
        flags, new = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, True
        try:
            self._file = os.open(self._path, flags | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            try:
                self._file, new = os.open(self._path, flags), False
            except FileNotFoundError:  # its owner has deleted it just now
                return False
        try:
            if self._locked(new) and self._is_current():
                self._write_owner()
                return True
        except OSError:
            if new:  # a full disk: an empty lock file would count as held on a file system without locks
                self._path.unlink(missing_ok=True)
            os.close(self._file)
            raise
        os.close(self._file)
        return False

    def _write_owner(self) -> None:
        owner = {"host": socket.gethostname(), "pid": os.getpid(), "job": os.environ.get("SLURM_JOB_ID")}
        owner["since"] = time.strftime("%Y-%m-%d %H:%M:%S")
        os.ftruncate(self._file, os.pwrite(self._file, json.dumps(owner).encode(), 0))

    def _locked(self, new: bool) -> bool:
        """Lock the file, unless another process holds it; `new`: nobody has held it before."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            here = socket.gethostname()
            return read_owner(self._path).get("host", here) == here or not self._has_heartbeat()
        except OSError as error:
            if error.errno in HELD:
                return False
            if error.errno not in NO_LOCKS:
                raise
        if new or self._force:
            return True
        if self._has_heartbeat():
            return False
        raise RunFileError(
            f"{self._run} was being written by {self._owner()}, which sends no heartbeat; this file system has no "
            "locks, so it may still be running. If it has ended, use --force"
        )

    def _has_heartbeat(self) -> bool:
        """Return True if the owner sends heartbeats; the clocks of the two machines may differ."""
        before = os.fstat(self._file).st_mtime_ns
        time.sleep(2 * HEARTBEAT_SECONDS)
        return os.fstat(self._file).st_mtime_ns != before

    def _is_current(self) -> bool:
        """Return False if the last owner deleted the file before this process locked it."""
        with suppress(FileNotFoundError):
            return os.stat(self._path).st_ino == os.fstat(self._file).st_ino
        return False

    def _send_heartbeats(self) -> None:
        while not self._stop.wait(HEARTBEAT_SECONDS):
            with suppress(OSError):  # a single heartbeat may fail
                os.utime(self._file)

    def _owner(self) -> str:
        owner = read_owner(self._path)
        if not owner:
            return "another process"
        job = f", SLURM job {owner['job']}" if owner["job"] else ""
        return f"process {owner['pid']} on {owner['host']}{job} (since {owner['since']})"

    def release(self) -> None:
        """Release the lock and delete its file."""
        self._stop.set()
        self._heartbeat.join()
        self._path.unlink(missing_ok=True)
        os.close(self._file)
