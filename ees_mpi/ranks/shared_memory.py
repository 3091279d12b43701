"""Memory that the ranks of a node share: a file in the node's memory, mapped by each rank and then unlinked.

This is not an MPI window: creating, locking or freeing one may hang if a rank dies at that moment. The kernel frees
this memory with the last process that maps it, and the lock with the process that holds it.
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
from ees_mpi.ranks.heartbeat import Progress

NAME_BYTES = 256


def create(size: int) -> str:
    """Create a file of `size` bytes of memory and return its name. Unlink it when all ranks have attached it."""
    folder = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
    file, path = tempfile.mkstemp(prefix="ees-mpi-", dir=folder)
    try:
        os.posix_fallocate(file, 0, size)  # now: if memory is short at the first write, the kernel kills the process
    except OSError as error:
        os.unlink(path)
        raise LaunchError(
            f"cannot allocate {size / 2**20:.0f} MiB of shared memory in {os.path.dirname(path)}: {error.strerror}; "
            "set noise.size smaller, or give the machine more"
        ) from None
    finally:
        os.close(file)
    return path


def attach(path: str, size: int) -> tuple[int, mmap.mmap]:
    """Open and map a file that another rank created."""
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return file, mmap.mmap(file, size)
    except OSError:
        os.close(file)
        raise


class NodeProgress:
    """In shared memory: the number of individuals that the node has dealt, and the progress of each of its ranks."""

    def __init__(self, file: int, memory: mmap.mmap):
        self._file = file
        numbers = np.frombuffer(memory, np.int64)
        self._dealt, self._progress = numbers[:1], numbers[1:].reshape(-1, 2)

    @staticmethod
    def bytes_for(ranks: int) -> int:
        """Return the number of bytes that it needs."""
        return 8 * (1 + 2 * ranks)

    def deal_next(self, while_waiting: Callable[[], object]) -> int:
        """Count one more individual and return the count before; call `while_waiting` while another rank counts."""
        while not self._lock():
            while_waiting()
            time.sleep(1e-5)
        value = int(self._dealt[0])
        self._dealt[0] = value + 1
        fcntl.lockf(self._file, fcntl.LOCK_UN)
        return value

    def _lock(self) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # POSIX allows either if another process holds it
            return False
        return True

    def close(self) -> None:
        """Close the file; the memory is freed with the last reference to it."""
        os.close(self._file)

    def set(self, node_rank: int, progress: Progress) -> None:
        """Write the progress of a rank."""
        self._progress[node_rank] = progress

    def get(self, node_rank: int) -> Progress:
        """Return the progress of a rank."""
        return Progress(*self._progress[node_rank].tolist())
