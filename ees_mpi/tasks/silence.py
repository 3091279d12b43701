"""Suppresses the output of C libraries."""

import contextlib
import ctypes
import os
from collections.abc import Iterator


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Redirect the file descriptors 1 and 2 to /dev/null, because Python cannot catch the output of C code."""
    flush = ctypes.CDLL(None).fflush
    flush(None)  # earlier output of C code must still appear
    saved: list[tuple[int, int]] = []
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            for descriptor in (1, 2):
                with contextlib.suppress(OSError):  # either of them may be closed
                    saved.append((descriptor, os.dup(descriptor)))
                    os.dup2(nowhere, descriptor)
        finally:
            os.close(nowhere)
        yield
    finally:
        flush(None)  # otherwise the buffer of C is printed at exit
        for descriptor, copy in saved:
            os.dup2(copy, descriptor)
            os.close(copy)
