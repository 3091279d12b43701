"""A file for h5py that checks every global heap before HDF5 reads it.

HDF5 keeps texts of variable length, and lists of references, in global heaps. A heap has no checksum. HDF5 walks from
object to object by their sizes, and a size of 0 never ends the walk. All bytes that HDF5 reads pass through this file,
so it finds each heap when HDF5 reads it; nothing is searched.

heap    = "GCOL" version (1 byte)  0 0 0  size (u64, little-endian)  object*
object  = index (u16)  references (u16)  0 0 0 0  size (u64)  data, padded to 8 bytes
"""

import os
import struct
from typing import Any

SIGNATURE = b"GCOL"
HEADER = struct.Struct("<4sB3xQ")
OBJECT = struct.Struct("<HH4xQ")
LARGEST = 4 << 20  # bytes of a heap; those of run files have 4 KiB, or the length of their longest text
MOST = 1 << 16  # objects of a heap: an index has 16 bits


class CheckedFile:
    """An open file, for `h5py.File`. It is closed when h5py drops it."""

    def __init__(self, number: int):
        self._number = number
        self._place = 0

    def __del__(self) -> None:
        os.close(self._number)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a place in the file."""
        self._place = offset + (self._size() if whence == os.SEEK_END else 0)
        return self._place

    def tell(self) -> int:
        """Return the present place."""
        return self._place

    def read(self, count: int) -> bytes:
        """Return bytes at the present place."""
        return os.pread(self._number, count, self._place)

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer of HDF5; raise a ValueError if it begins with a heap that HDF5 cannot walk to its end."""
        view, place = memoryview(buffer), self._place
        while view:
            count = os.preadv(self._number, [view], place)
            if not count:
                raise ValueError("it ends early")
            view, place = view[count:], place + count
        if bytes(buffer[:4]) == SIGNATURE:
            self._check_heap()
        return place - self._place

    def write(self, data: Any) -> int:
        """Write all bytes at the present place."""
        view, place = memoryview(data), self._place
        while view:
            count = os.pwrite(self._number, view, place)
            view, place = view[count:], place + count
        return place - self._place

    def truncate(self, size: int) -> None:
        """Change the length of the file."""
        os.ftruncate(self._number, size)

    def flush(self) -> None:
        """Do nothing: no bytes are kept back."""

    def _size(self) -> int:
        return os.fstat(self._number).st_size

    def _check_heap(self) -> None:
        """Walk through the heap at the present place as HDF5 does."""
        _, _, size = HEADER.unpack(self.read(HEADER.size).ljust(HEADER.size))
        if not HEADER.size <= size <= min(LARGEST, self._size() - self._place):
            raise ValueError("a heap of texts claims a wrong size")
        heap, start = self.read(size), HEADER.size
        for _ in range(MOST):
            if start + OBJECT.size > len(heap):
                return
            index, _, length = OBJECT.unpack_from(heap, start)
            # Object 0 is the free space, whose size counts its header.
            step = -(-length // 8) * 8 + OBJECT.size if index else length
            if not 0 < step <= len(heap) - start:
                break
            start += step
        raise ValueError("the objects of a heap of texts have wrong sizes")
