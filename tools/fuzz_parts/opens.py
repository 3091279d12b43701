"""Notice which files of a folder a process opens, also from C: inotify of Linux."""

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

IN_OPEN, IN_NONBLOCK, IN_ISDIR = 0x20, 0x800, 0x40000000
EVENT = struct.Struct("iIII")


@contextmanager
def opened(folder: Path) -> Iterator[set[str]]:
    """Yield a set; after the block it has the names of the files of a folder that any process opened."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = libc.inotify_init1(IN_NONBLOCK)
    if number < 0 or libc.inotify_add_watch(number, os.fsencode(folder), IN_OPEN) < 0:
        raise OSError(ctypes.get_errno(), "inotify cannot watch a folder here")
    found: set[str] = set()
    try:
        yield found
        found.update(_names(number))
    finally:
        os.close(number)


def _names(number: int) -> Iterator[str]:
    while True:
        try:
            data = os.read(number, 65536)
        except BlockingIOError:
            return
        place = 0
        while place < len(data):
            _, mask, _, length = EVENT.unpack_from(data, place)
            name = data[place + EVENT.size : place + EVENT.size + length].rstrip(b"\0")
            if not mask & IN_ISDIR:
                yield os.fsdecode(name)
            place += EVENT.size + length
