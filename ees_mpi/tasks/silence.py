"""Keeping C libraries off the terminal."""

import contextlib
import ctypes
import os
from collections.abc import Iterator


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Send the file descriptors 1 and 2 to nowhere, for C code that prints where Python cannot catch it."""
    flush = ctypes.CDLL(None).fflush
    flush(None)  # what C code printed before must still come out
    saved: list[tuple[int, int]] = []
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            for descriptor in (1, 2):
                with contextlib.suppress(OSError):  # a process may run with either of them closed
                    saved.append((descriptor, os.dup(descriptor)))
                    os.dup2(nowhere, descriptor)
        finally:
            os.close(nowhere)
        yield
    finally:
        flush(None)  # C's buffer must go to nowhere too, not out at exit
        for descriptor, copy in saved:
            os.dup2(copy, descriptor)
            os.close(copy)
