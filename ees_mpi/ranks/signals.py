"""The signals that stop a run, before the ranks are connected and handle them."""

import signal
import threading
from collections.abc import Sequence
from types import FrameType

from ees_mpi import watchdog

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
BLOCKED = (signal.SIGTERM, signal.SIGUSR1)  # while modules are imported
EARLY: list[int] = []  # stop signals that came before the ranks were connected


def note_early_signals() -> None:
    """Let SIGTERM and SIGUSR1 stop a run that is still starting as they stop a run that trains."""
    EARLY.clear()
    for number in settable(BLOCKED):
        signal.signal(number, _note_early)
    accept_stop_signals()


def _note_early(number: int, frame: FrameType | None) -> None:
    EARLY.append(number)
    watchdog.acknowledge()


def accept_stop_signals() -> None:
    """Receive the signals that `__main__` has held back."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)


def settable(signals: Sequence[signal.Signals]) -> list[signal.Signals]:
    """Return the signals whose handler this thread may change, and can restore: none outside of the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return []
    return [number for number in signals if signal.getsignal(number) is not None]  # None: a handler written in C
