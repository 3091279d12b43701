"""Lines of progress while the user waits for a GPU: kernels that compile, and the first batch."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ees_mpi.contracts import Say

EVERY = 10.0  # seconds between two lines


class Waiting:
    """Says every few seconds what the program waits for, until the block ends; `text` is called for each line."""

    def __init__(self, say: Say, text: Callable[[], str], every: float = EVERY):
        self._say, self._text, self._every, self._done = say, text, every, threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)
        self._start = time.perf_counter()

    def __enter__(self) -> "Waiting":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    def _repeat(self) -> None:
        while not self._done.wait(self._every):
            self._say(f"{self._text()} ({time.perf_counter() - self._start:.0f} s)")


class ModuleCount:
    """A logger of Warp that counts the modules of kernels, and passes warnings and errors on."""

    def __init__(self, logger: Any):
        self.modules, self.warning, self.error = 0, logger.warning, logger.error

    def debug(self, message: str) -> None:
        """Drop a message."""

    def info(self, message: str) -> None:
        """Count a message about a module."""
        self.modules += message.startswith("Module ")


@contextmanager
def kernels(warp: Any, say: Say) -> Iterator[None]:
    """Say every few seconds how many modules of kernels are ready, while they are compiled or loaded."""
    with ExitStack() as stack:
        count = ModuleCount(warp.get_logger())
        stack.enter_context(warp.ScopedLogger(count))
        stack.enter_context(warp.ScopedLogLevel(warp.LOG_INFO))
        stack.enter_context(Waiting(say, lambda: f"preparing kernels: {count.modules} modules are ready"))
        yield


class FirstSteps:
    """Says every few seconds how many steps of the first batch are done. It waits for the device at each call."""

    def __init__(self, say: Say, steps: int):
        self._say, self._steps, self._last = say, steps, time.perf_counter()

    def done(self, steps: int, wait: Callable[[], None]) -> None:
        """Note that so many steps were launched; `wait`: returns when the device has done them."""
        wait()
        if time.perf_counter() - self._last >= EVERY:
            self._say(f"first batch: {steps:,} of {self._steps:,} steps")
            self._last = time.perf_counter()
