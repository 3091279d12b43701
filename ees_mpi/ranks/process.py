"""This process, without MPI: its launcher, the stop signals that it has received, and its time limit.

The time limit is Python's `faulthandler`: it prints the stack of a process that makes no progress, and ends it with
exit code 1. It works while a library or MPI computes and does not return to Python. This module imports no numpy.
"""

import contextlib
import ctypes
import faulthandler
import fcntl
import os
import signal
import stat
import sys
import termios
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any, NoReturn

from ees_mpi.errors import LaunchError
from ees_mpi.machine import LAUNCHERS
from ees_mpi.terminal import say_on_stderr

START_MINUTES = "EES_MPI_START_MINUTES"  # an environment variable
DEFAULT_MINUTES, RANKS_A_MINUTE = 5.0, 500  # all ranks read the same small files from the same disk
MARGIN = 10.0  # seconds that a waiting rank gives the others beyond the limit, so that the culprit prints its stack
STAGGER, MAX_STAGGER = 2.0, 60.0  # seconds between the ranks that wait: the first one ends the others
ROOT_SECONDS = 2.0  # by which the last message of rank 0 comes before those of others
START_SECONDS = 5.0  # the same before MPI has started; ranks start at different times
READ_SECONDS = 10.0  # that the launcher has for the last message of a rank
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
NOTED: list[int] = []  # the stop signals that have come
END = {"seconds": 1800.0}  # the limit for threads and exit handlers of the user's code; 0: none
STREAMS = (1, 2)  # stdout and stderr
LOOK_SECONDS = 0.01
PR_SET_PDEATHSIG = 1
_HANDLERS: dict[int, Any] = {}  # of the stop signals, before they were noted


def launched() -> tuple[int, int, str]:
    """Return the number of processes, the rank of this one, and the launcher; (0, 0, "") if there is no launcher."""
    for size, rank, launcher in LAUNCHERS:
        if os.environ.get(size, "").isdigit():
            if size == "PMI_SIZE" and os.environ[size] == os.environ.get("SLURM_STEP_NUM_TASKS"):
                launcher = "srun"  # with PMI
            return int(os.environ[size]), int(os.environ.get(rank, "0")), launcher
    return 0, 0, ""


def let_root_speak(rank: int, seconds: float = ROOT_SECONDS) -> None:
    """Give rank 0 the time to print an error that all ranks may have, and the launcher to end this one."""
    if rank:
        time.sleep(seconds)


def await_root() -> str:
    """Let rank 0 print an error that all ranks may have; return the name of another rank that nobody has ended then.

    Before MPI has started, no rank knows of the errors of others.
    """
    _, rank, _ = launched()
    let_root_speak(rank, START_SECONDS)
    return f"rank {rank} on {os.uname().nodename}: " if rank else ""


def leave(message: str, code: int, name: str = "ees-mpi: ") -> NoReturn:
    """Print an error before MPI has started, and exit; the launcher ends the other ranks, which would wait for this.

    Open MPI's mpirun and `srun --kill-on-bad-exit` do so after any code but 0. MPICH's needs a line of its protocol.
    """
    say_on_stderr(f"{name}{await_root()}{message}\n")
    if launched()[2].startswith("a PMI"):
        await_reader()
        with contextlib.suppress(KeyError, ValueError, OSError):
            os.write(int(os.environ["PMI_FD"]), f"cmd=abort exitcode={code}\n".encode())
    sys.exit(code)


def begin_start() -> float:
    """Limit the time until MPI has started on all ranks, and die with the launcher; return the limit in minutes."""
    minutes = start_minutes()
    if launched()[0]:
        # Ranks that compute would outlive a killed mpirun.
        die_with_parent()
        arm(60 * minutes)
    return minutes


def start_minutes() -> float:
    """Return the time limit for the start of MPI, in minutes; more ranks have longer."""
    text = os.environ.get(START_MINUTES, DEFAULT_MINUTES + launched()[0] // RANKS_A_MINUTE)
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes <= 1e6:
        raise LaunchError(f"{START_MINUTES}: expected a number of minutes, got {text!r}")
    return minutes


def arm(seconds: float, file: Any = 2) -> None:
    """Print the stack and end this process after so many seconds, unless it is armed again before; 0: never."""
    if seconds > 0:
        faulthandler.dump_traceback_later(seconds, exit=True, file=file)
    else:
        disarm()


def disarm() -> None:
    """Let this process take as long as it needs."""
    faulthandler.cancel_dump_traceback_later()


def arm_end() -> None:
    """Limit the time until this process has ended, after the work of a command."""
    arm(END["seconds"] and END["seconds"] + turn_of(launched()[1]))


def end_mpi() -> None:
    """End MPI within the time limit, as the last exit handler of a command.

    mpi4py would do it after Python has ended `faulthandler`: then a rank that stops in an exit handler would keep the
    others waiting for ever. Before the other handlers, it would hide from mpirun that such a rank has not ended.
    """
    if mpi := sys.modules.get("ees_mpi.ranks.mpi"):
        arm(END["seconds"] and END["seconds"] + patience(launched()[1]))  # the stack of a rank that waits says nothing
        mpi.finalize()


def await_reader() -> None:
    """Wait until the launcher has read what this process has written, but not for ever.

    MPICH's mpirun may discard what it reads after it has heard of the end of the job. A pause is not enough: on a busy
    machine it gets no core for that long. Files keep what is in them, and a terminal does not say what is unread.
    """
    deadline = time.monotonic() + READ_SECONDS
    while any(map(_unread, STREAMS)) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)


def _unread(number: int) -> int:
    """Return the bytes that are in a pipe; 0 for other files."""
    try:
        if not stat.S_ISFIFO(os.fstat(number).st_mode):
            return 0
        return int.from_bytes(fcntl.ioctl(number, termios.FIONREAD, bytes(4)), sys.byteorder)
    except OSError:
        return 0


def turn_of(rank: int) -> float:
    """Return the seconds beyond the limit after which a rank ends itself: if all hang in MPI, one prints its stack."""
    return min(STAGGER * rank, MARGIN - STAGGER)


def patience(rank: int) -> float:
    """Return the seconds beyond the limit after which a rank that waits for others ends the job."""
    return MARGIN + min(STAGGER * rank, MAX_STAGGER)


def note_stops() -> None:
    """Note stop signals in `NOTED` from now on; a second SIGINT raises a KeyboardInterrupt."""
    numbers = settable(STOP_SIGNALS)
    if any(signal.getsignal(number) is not _note for number in numbers):
        NOTED.clear()
        _HANDLERS.update({number: signal.signal(number, _note) for number in numbers})


def _begin_child() -> None:
    """Let a process that code of the user forks during a run, such as a worker of a pool, end by SIGTERM and with us.

    A pool ends its workers by SIGTERM; if they only noted it, the pool would wait for them for ever. Ctrl-C and SIGUSR1
    may reach all processes of a job, and stop it after the present rollouts, which need their workers.
    """
    if signal.getsignal(signal.SIGTERM) is _note:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for number in (signal.SIGINT, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)
        die_with_parent()


os.register_at_fork(after_in_child=_begin_child)


def die_with_parent() -> None:
    """Let the kernel end this process with the one that has started it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def act_on_stops() -> None:
    """Undo `note_stops`; a signal that was noted acts now."""
    for number in settable(STOP_SIGNALS):
        if signal.getsignal(number) is _note:
            signal.signal(number, _HANDLERS[number])
            if number in NOTED:
                os.kill(os.getpid(), number)


def interrupted() -> int:
    """Return how often Ctrl-C has come while stop signals are noted."""
    return NOTED.count(signal.SIGINT) if signal.getsignal(signal.SIGINT) is _note else 0


def _note(number: int, frame: FrameType | None) -> None:
    again = number == signal.SIGINT and number in NOTED
    NOTED.append(number)
    if again:
        raise KeyboardInterrupt


def settable(signals: Sequence[signal.Signals]) -> list[signal.Signals]:
    """Return the signals whose handler this thread may change, and can restore: none outside of the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return []
    return [number for number in signals if signal.getsignal(number) is not None]  # None: a handler written in C
