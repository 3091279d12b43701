"""Memory that the ranks of a node share: a file in the node's memory, mapped by each rank and then unlinked.

This is not an MPI window: a numpy view of one crashes after the window is freed, and views of the noise table outlive
a call. The kernel frees this memory with the last process that maps it.
"""

import mmap
import os
import tempfile

from ees_mpi.errors import LaunchError
from ees_mpi.machine import SHARED_MEMORY

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


def attach(path: str, size: int) -> mmap.mmap:
    """Map a file that another rank created."""
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return mmap.mmap(file, size)
    finally:
        os.close(file)
