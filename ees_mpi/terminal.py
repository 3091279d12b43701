"""Messages to the user. A closed terminal or a full disk never stops the program."""

import contextlib
import sys

from ees_mpi.errors import EesError


def say_on_stderr(text: str) -> None:
    """Write to stderr, after the buffered output to stdout."""
    for action in (lambda: sys.stdout.flush(), lambda: sys.stderr.write(text), lambda: sys.stderr.flush()):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # broken, closed, or None
            action()


def say(line: str = "", nl: bool = True) -> None:
    """Write a line to stdout, if it is open."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(line, end="\n" if nl else "", flush=True)


def tell(error: EesError) -> int:
    """Print an error and return its exit code."""
    say_on_stderr(f"ees-mpi: {error}\n")
    return error.exit_code


def clock(seconds: float) -> str:
    """Return a time as h:mm:ss."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}"
