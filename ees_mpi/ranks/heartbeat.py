"""Detect ranks that hang, by heartbeats around a ring of ranks.

A rank sends heartbeats to its predecessor in the ring and receives them from its successor. It sends one when it makes
progress (a rollout begins, an allgather ends), and about once a second while it waits. If a rank sends none for longer
than the limit, it hangs, and its predecessor reports it. A heartbeat also carries a counter that grows when any rank
makes progress and is passed on around the ring. If the counter stops growing, all ranks wait for each other.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

TAG = 1
BUSY_INTERVAL = 0.01  # seconds between two heartbeats of a rank that makes progress
IDLE_INTERVAL = 1.0  # seconds between two heartbeats of a rank that waits


class Progress(NamedTuple):
    """The generation and individual that a rank works on; -1 if there is none."""

    generation: int = -1
    individual: int = -1

    def __str__(self) -> str:
        if self.individual < 0:
            return f"in generation {self.generation}, between rollouts" if self.generation >= 0 else "between rollouts"
        return f"at individual {self.individual}" + (
            f" of generation {self.generation}" if self.generation >= 0 else ""
        )


class Stall(NamedTuple):
    """A rank that hangs, or all of them."""

    rank: int | None  # None: all ranks wait for each other
    progress: Progress  # the last that is known
    seconds: float  # without a heartbeat, or without progress


class HeartbeatRing:
    """This rank's part of the ring."""

    def __init__(self, comm: Any, limit: float):
        self._comm = comm
        self._successor, self._predecessor = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        self._progress = self._successor_progress = Progress()
        self._silence = 0.0  # seconds since the last heartbeat of the successor
        self._idle = 0.0  # seconds since any rank made progress, as far as this rank knows
        self._counter = 0.0  # of progress: the largest that this rank knows
        self._progressed = False  # since the last heartbeat that this rank sent
        self._sent_at, self._checked_at = -math.inf, time.monotonic()
        self._outgoing, self._incoming = np.zeros(3), np.zeros(3)
        self._send_request: Any = None
        self.sent = self._received = 0  # heartbeats
        self._receive_request = comm.Irecv(self._incoming, self._successor, TAG)
        self.set_limit(limit)

    def set_limit(self, limit: float) -> None:
        """Set the number of seconds without progress, from now on, after which a rank hangs; 0: no limit."""
        self._limit = limit or math.inf
        self._silence = self._idle = 0.0  # there may have been no limit for hours
        # A heartbeat must go around the ring well within the limit.
        self._interval = min(IDLE_INTERVAL, self._limit / (8 * self._comm.size))

    def note_progress(self, progress: Progress | None = None) -> Stall | None:
        """Note that this rank makes progress; send a heartbeat unless it has just sent one."""
        self._progressed, self._idle = True, 0.0
        self._progress = progress or self._progress
        return self.check_peers() if time.monotonic() - self._sent_at > BUSY_INTERVAL else None

    def check_peers(self) -> Stall | None:
        """Receive and send heartbeats; return the stall, if there is one. A waiting rank calls this often."""
        now = time.monotonic()
        # A long rollout of this rank, or a suspended job, counts only in part: heartbeats could not be received then.
        passed, self._checked_at = min(now - self._checked_at, self._limit / 4), now
        self._silence += passed
        self._idle += passed
        while self._receive_request.Test():
            self._received += 1
            self._silence = 0.0
            self._successor_progress = Progress(int(self._incoming[0]), int(self._incoming[1]))
            if self._incoming[2] > self._counter:
                self._counter, self._idle = float(self._incoming[2]), 0.0
            self._receive_request = self._comm.Irecv(self._incoming, self._successor, TAG)
        if now - self._sent_at > (BUSY_INTERVAL if self._progressed else self._interval):
            self._send(now)
        if self._silence > self._limit:
            return Stall(self._successor, self._successor_progress, self._silence)
        # Reported later than a single rank that hangs: that is the likelier cause, and can be named.
        return Stall(None, self._progress, self._idle) if self._idle > 1.5 * self._limit + IDLE_INTERVAL else None

    def _send(self, now: float) -> None:
        if self._send_request is not None and not self._send_request.Test():
            return  # the predecessor has not yet received the last heartbeat; one on the way is enough
        self._counter += self._progressed
        self._outgoing = np.array([*self._progress, self._counter])
        self._send_request = self._comm.Isend(self._outgoing, self._predecessor, TAG)
        self.sent += 1
        self._sent_at, self._progressed = now, False

    def drain(self, sent: Sequence[int]) -> None:
        """Receive all heartbeats that are on the way; `sent`: by each rank, which sends no more."""
        for _ in range(sent[self._successor] - self._received):
            self._receive_request.Wait()
            self._receive_request = self._comm.Irecv(self._incoming, self._successor, TAG)
        if self._send_request is not None:
            self._send_request.Wait()
        self.close()

    def close(self) -> None:
        """Stop receiving."""
        cancel(self._receive_request)


class HeartbeatThread:
    """Detects that a single process hangs. A thread cannot detect a hang that holds the interpreter lock."""

    def __init__(self, limit: float, on_stall: Callable[[Stall], None]):
        self.progress = Progress()
        self._limit, self._on_stall = limit, on_stall
        self._stopped = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        seen, unchanged = self.progress, 0
        while unchanged < 4:  # checks in a row
            if self._stopped.wait(self._limit / 4):
                return
            unchanged = unchanged + 1 if self.progress is seen else 0
            seen = self.progress
        self._on_stall(Stall(0, seen, self._limit))

    def stop(self) -> None:
        """Stop checking."""
        self._stopped.set()


def cancel(receive_request: Any) -> None:
    """Cancel a receive unless its message has come."""
    if not receive_request.Test():
        receive_request.Cancel()
        receive_request.Wait()


@contextmanager
def time_limit(seconds: float, on_timeout: Callable[[], None]) -> Iterator[None]:
    """Call `on_timeout` from a thread if a block takes longer; for waits inside MPI, which nothing can interrupt."""
    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), on_timeout)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
