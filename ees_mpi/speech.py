"""Saying something to the user, come what may: a closed terminal or a full disk must not stop what follows."""

import contextlib
import sys

from ees_mpi.errors import EesError


def say_on_stderr(text: str) -> None:
    """Write to stderr after all that is waiting on stdout."""
    for action in (lambda: sys.stdout.flush(), lambda: sys.stderr.write(text), lambda: sys.stderr.flush()):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # broken, closed, or None
            action()


def say(line: str = "", nl: bool = True) -> None:
    """Write a line to stdout, if anybody is there."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(line, end="\n" if nl else "", flush=True)


def tell(error: EesError) -> int:
    """Say an error to the user and return its exit code."""
    say_on_stderr(f"ees-mpi: {error}\n")
    return error.exit_code
