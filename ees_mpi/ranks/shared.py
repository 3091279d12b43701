"""Memory that the ranks of a node share: a nameless file in the node's memory, mapped by each of them.

Not an MPI window: its making and freeing, and its locks, could not outlive a rank that dies at the wrong moment.
Here the kernel frees the memory with the last process that maps it, and the lock with the process that holds it.
"""

import fcntl
import mmap
import os
import tempfile
import time
from collections.abc import Callable

import numpy as np

from ees_mpi.machine import SHARED_MEMORY

NAME_BYTES = 256


def create(size: int) -> str:
    """Make a file of `size` bytes of memory and return its name, for the others to open; unlink it when they have."""
    folder = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
    file, path = tempfile.mkstemp(prefix="ees-mpi-", dir=folder)
    try:
        os.ftruncate(file, size)
    finally:
        os.close(file)
    return path


def attach(path: str, size: int) -> tuple[int, mmap.mmap]:
    """Open and map such a file."""
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return file, mmap.mmap(file, size)
    except OSError:
        os.close(file)
        raise


class Counter:
    """A number that any rank of the node can move on, one at a time."""

    SIZE = 8

    def __init__(self, file: int, memory: mmap.mmap):
        self._file = file
        self._value = np.frombuffer(memory, np.int64)

    def next(self, meanwhile: Callable[[], object]) -> int:
        """Return the number and add one to it; calls `meanwhile` again and again while another rank is at it."""
        while not self._lock():
            meanwhile()
            time.sleep(1e-5)
        value = int(self._value[0])
        self._value[0] = value + 1
        fcntl.lockf(self._file, fcntl.LOCK_UN)
        return value

    def _lock(self) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # held, by either name
            return False
        return True
