"""A file for h5py that checks every global heap before HDF5 reads it.

HDF5 keeps texts of variable length, and lists of references, in global heaps. A heap has no checksum. HDF5 walks from
object to object by their sizes, and a size of 0 never ends the walk. All bytes that HDF5 reads pass through this file,
so it finds each heap when HDF5 reads it; nothing is searched.

heap    = "GCOL" version (1 byte)  0 0 0  size (u64, little-endian)  object*
object  = index (u16)  references (u16)  0 0 0 0  size (u64)  data, padded to 8 bytes
"""

import io
import os
import struct
from typing import Any

SIGNATURE = b"GCOL"
HEADER = struct.Struct("<4sB3xQ")
OBJECT = struct.Struct("<HH4xQ")
LARGEST = 4 << 20  # bytes of a heap; those of run files have 4 KiB, or the length of their longest text
MOST = 1 << 16  # objects of a heap: an index has 16 bits


class CheckedFile(io.FileIO):
    """An open file, for `h5py.File`. It is closed when h5py drops it."""

    def __del__(self) -> None:
        self.close()

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer of HDF5; raise a ValueError if it begins with a heap that HDF5 cannot walk to its end."""
        place, view = self.tell(), memoryview(buffer)
        while view:
            count = super().readinto(view)
            if not count:
                raise ValueError("it ends early")
            view = view[count:]
        if bytes(buffer[:4]) == SIGNATURE:
            self._check_heap(place)
        return self.tell() - place

    def write(self, data: Any, /) -> int:
        """Write all bytes."""
        place, view = self.tell(), memoryview(data)
        while view:
            view = view[super().write(view) :]
        return self.tell() - place

    def _check_heap(self, place: int) -> None:
        """Walk through a heap as HDF5 does."""
        file = self.fileno()
        _, _, size = HEADER.unpack(os.pread(file, HEADER.size, place).ljust(HEADER.size))
        if not HEADER.size <= size <= min(LARGEST, os.fstat(file).st_size - place):
            raise ValueError("a heap of texts claims a wrong size")
        heap, start = os.pread(file, size, place), HEADER.size
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
