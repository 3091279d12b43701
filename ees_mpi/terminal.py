"""Messages to the user. A closed terminal or a full disk never stops the program."""

import contextlib
import ctypes
import io
import os
import re
import sys
from collections.abc import Iterator

from ees_mpi.errors import EesError


def plain(text: str) -> str:
    """Return a text without control characters: a text from a file could move the cursor or hide other text."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


MAX_SECONDS = 1e12  # longer times are not printed as a time
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def say_on_stderr(text: str) -> None:
    """Write to stderr, after the buffered output to stdout."""
    text = plain(text)
    for action in (lambda: sys.stdout.flush(), lambda: sys.stderr.write(text), lambda: sys.stderr.flush()):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # broken, closed, or None
            action()


def say(line: str) -> None:
    """Write a line to stdout, if it is open."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        try:
            print(plain(line), flush=True)
        except BrokenPipeError:  # of `| head`
            nobody_reads()


def show_any_character() -> None:
    """Write characters that stdout does not have, as with PYTHONIOENCODING=ascii, by their numbers."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def nobody_reads() -> None:
    """Write to nowhere from now on: otherwise Python would try again at the end, and print a warning."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def tell(error: EesError, lines: str = "") -> int:
    """Print an error, and `lines` below it; return its exit code."""
    say_on_stderr(f"ees-mpi: {error}\n{lines}")
    return error.exit_code


def pace(seconds: float) -> str:
    """Return the time of a generation as people say it: 63 s a generation, or 23 generations a second."""
    if seconds < 1:
        return f"{1 / max(seconds, 1e-9):.3g} generations a second"
    return f"{seconds:.3g} s a generation" if seconds < 600 else f"{seconds / 60:.3g} min a generation"


def clock(seconds: float) -> str:
    """Return a time as h:mm:ss; "unknown" if it is not finite, or absurd: a file may hold any number."""
    if not abs(seconds) < MAX_SECONDS:
        return "unknown"
    minutes, second = divmod(round(abs(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{'-' * (seconds <= -0.5)}{hours}:{minute:02d}:{second:02d}"


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
