"""A time limit for the start of MPI.

If a rank dies before MPI has started, the other ranks may wait for it in MPI_Init for ever. MPI_Init holds the
interpreter's lock, so no thread of this process can act. A small child process watches the time instead.
"""

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from ees_mpi.errors import LaunchError
from ees_mpi.ranks.launcher import launched, launcher_process, ranks_gone, say_from_launcher

MINUTES = "EES_MPI_START_MINUTES"  # an environment variable: the default of the option --start-minutes
DEFAULT = 5.0
GONE_CHECKS = 5  # one a second
PATIENCE = 2.0  # seconds that the launcher gets to end the ranks


def limit_minutes() -> float:
    """Return the time limit, in minutes."""
    text = os.environ.get(MINUTES, DEFAULT)
    try:
        return float(text)
    except ValueError:
        raise LaunchError(f"{MINUTES}: expected a number of minutes, got {text!r}") from None


@contextmanager
def start_limit(fault_tolerant: bool, minutes: float) -> Iterator[None]:
    """End the job with a message if a block, which starts MPI, takes longer than the limit."""
    launcher = launcher_process() if fault_tolerant else 0
    reading, writing = os.pipe()
    rank = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            os.close(writing)
            _watch(reading, rank, launcher, minutes)
        finally:
            os._exit(0)
    os.close(reading)
    try:
        yield
    finally:
        os.close(writing)  # ends the child, as the death of this rank does
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


def _watch(pipe: int, rank: int, launcher: int, minutes: float) -> None:
    """Wait for the end of the pipe; after the time limit, print a message and end the job."""
    for number in (signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _say_that_the_launcher_ends)
    # The child of the lowest rank that is alive acts first, and ends the other ranks before they print the same.
    delay = min(0.5 * launched()[1], 8.0)
    deadline = time.monotonic() + 60 * minutes + delay
    gone = 0  # checks in a row that missed a process: the launcher may still be starting some
    while gone < GONE_CHECKS and time.monotonic() < deadline:
        if select.select([pipe], [], [], min(1.0 + delay / 8, deadline - time.monotonic()))[0]:
            return
        gone = gone + 1 if ranks_gone() else 0
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # of the launcher, which ends the job for this child
    problem = (
        "another rank of this node exited before MPI started, or never used MPI"
        if gone >= GONE_CHECKS
        else f"MPI did not start within {minutes:g} minutes (--start-minutes); perhaps a rank died, or is very slow to "
        "start, or does not call ees_mpi"
    )
    with suppress(OSError):
        os.write(2, f"ees-mpi: {problem}. The job ends; nothing was changed. Run it again on all ranks\n".encode())
    _end(rank, launcher)


def _say_that_the_launcher_ends(number: int, frame: FrameType | None) -> None:
    """Print a sentence: a launcher that ends the job, after Ctrl-C for example, signals this child, too."""
    if launched()[1] == 0:
        say_from_launcher("ees-mpi: the launcher ends the job while MPI starts. Run the same command again\n")


def _end(rank: int, launcher: int) -> NoReturn:
    """End the job: by a signal to a launcher that would survive the death of a rank, and by killing this rank."""
    with suppress(OSError):
        if launcher:
            os.kill(launcher, signal.SIGTERM)
            time.sleep(PATIENCE)
    with suppress(OSError):
        if os.getppid() == rank:
            os.kill(rank, signal.SIGKILL)
    os._exit(0)
