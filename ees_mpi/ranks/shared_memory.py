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

from ees_mpi.errors import LaunchError
from ees_mpi.machine import SHARED_MEMORY
from ees_mpi.ranks.heartbeat import Place

NAME_BYTES = 256


def create(size: int) -> str:
    """Make a file of `size` bytes of memory and return its name, for the others to open; unlink it when they have."""
    folder = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
    file, path = tempfile.mkstemp(prefix="ees-mpi-", dir=folder)
    try:
        os.posix_fallocate(file, 0, size)  # now: memory that is not there when it is first written to kills, wordless
    except OSError as error:
        os.unlink(path)
        raise LaunchError(
            f"{size / 2**20:.0f} MiB of shared memory cannot be had in {os.path.dirname(path)}: {error.strerror}; "
            "set noise.size smaller, or give the machine more"
        ) from None
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


class Board:
    """What the ranks of a node see of each other: how many individuals are dealt, and where each rank is."""

    def __init__(self, file: int, memory: mmap.mmap):
        self._file = file
        numbers = np.frombuffer(memory, np.int64)
        self._dealt, self._places = numbers[:1], numbers[1:].reshape(-1, 2)

    @staticmethod
    def size(ranks: int) -> int:
        """Return how many bytes it takes."""
        return 8 * (1 + 2 * ranks)

    def next(self, meanwhile: Callable[[], object]) -> int:
        """Return how many were dealt, and deal one more; calls `meanwhile` while another rank is at it."""
        while not self._lock():
            meanwhile()
            time.sleep(1e-5)
        value = int(self._dealt[0])
        self._dealt[0] = value + 1
        fcntl.lockf(self._file, fcntl.LOCK_UN)
        return value

    def _lock(self) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # held, by either name
            return False
        return True

    def put(self, rank: int, place: Place) -> None:
        """Say where a rank of the node is."""
        self._places[rank] = place

    def place(self, rank: int) -> Place:
        """Tell where a rank of the node is."""
        return Place(*self._places[rank].tolist())
