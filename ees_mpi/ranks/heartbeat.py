"""Noticing a rank that hangs: round the ring, each rank hears from the next one.

A rank says where it is whenever it gets on (a rollout begun, a gather done) and, now and then, while it waits for
others. One that is silent for longer than the limit hangs, whatever it hangs in: the rank before it says so. Every
word also carries a number that grows when anyone gets on and is passed on round the ring: where it grows no more, all
wait for each other.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

TAG = 1
QUICKEST = 0.01  # seconds between two words of a rank that gets on
SLOWEST = 1.0  # seconds between two words of a rank that waits


class Place(NamedTuple):
    """Where a rank is in its work; -1 where it is at none."""

    generation: int = -1
    individual: int = -1

    def __str__(self) -> str:
        where = f"in generation {self.generation}, between rollouts" if self.generation >= 0 else "between rollouts"
        if self.individual >= 0:
            where = f"at individual {self.individual}"
            where += f" of generation {self.generation}" if self.generation >= 0 else ""
        return where


class Stall(NamedTuple):
    """What was noticed: the rank that hangs (None: all wait for each other), and where it was last."""

    rank: int | None
    place: Place
    seconds: float  # of silence


class Watch:
    """This rank's part of the ring: it hears from the next rank, and speaks to the one before."""

    def __init__(self, comm: Any, limit: float):
        self._comm = comm
        self._ward, self._listener = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        self._place = self._ward_place = Place()
        self._silence = 0.0  # seconds since the next rank was heard
        self._idle = 0.0  # seconds since anyone got on, as far as known here
        self._stamp = 0.0  # the largest such number known
        self._got_on = False
        self._spoken, self._looked = -math.inf, time.monotonic()
        self._word, self._heard = np.zeros(3), np.zeros(3)
        self._sending: Any = None
        self._listening = comm.Irecv(self._heard, self._ward, TAG)
        self.set_limit(limit)

    def set_limit(self, limit: float) -> None:
        """Change how many seconds of silence are too long; 0: none are."""
        self._limit = limit or math.inf
        self._pause = min(SLOWEST, self._limit / (8 * self._comm.size))  # a word must be round well within the limit

    def get_on(self, place: Place | None = None) -> Stall | None:
        """Note that this rank has got on, and say so unless it just has."""
        self._got_on, self._idle = True, 0.0
        self._place = place or self._place
        return self.look() if time.monotonic() - self._spoken > QUICKEST else None

    def look(self) -> Stall | None:
        """Hear, speak, and tell whether somebody hangs; to be called now and then."""
        now = time.monotonic()
        # Time that this rank was away for, in a rollout or suspended with the whole job, counts only in part.
        passed, self._looked = min(now - self._looked, self._limit / 4), now
        self._silence += passed
        self._idle += passed
        while self._listening.Test():
            self._silence = 0.0
            self._ward_place = Place(int(self._heard[0]), int(self._heard[1]))
            if self._heard[2] > self._stamp:
                self._stamp, self._idle = float(self._heard[2]), 0.0
            self._listening = self._comm.Irecv(self._heard, self._ward, TAG)
        if now - self._spoken > (QUICKEST if self._got_on else self._pause):
            self._speak(now)
        if self._silence > self._limit:
            return Stall(self._ward, self._ward_place, self._silence)
        # Later than a single rank that hangs, which is the likelier cause and has a name.
        return Stall(None, self._place, self._idle) if self._idle > 1.5 * self._limit + SLOWEST else None

    def _speak(self, now: float) -> None:
        if self._sending is not None and not self._sending.Test():
            return  # it does not listen; one word on the way is enough
        self._stamp += self._got_on
        self._word = np.array([*self._place, self._stamp])
        self._sending = self._comm.Isend(self._word, self._listener, TAG)
        self._spoken, self._got_on = now, False

    def close(self) -> None:
        """Stop listening."""
        if not self._listening.Test():
            self._listening.Cancel()
            self._listening.Wait()


class Watchman:
    """Watches a process that has no other ranks, from a thread: sees all but what holds the interpreter itself."""

    def __init__(self, limit: float, stalled: Callable[[Stall], None]):
        self.place = Place()
        self._limit, self._stalled = limit, stalled
        self._over = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        seen, looks = self.place, 0
        while looks < 4:  # so many in a row at the same place
            if self._over.wait(self._limit / 4):
                return
            looks = looks + 1 if self.place is seen else 0
            seen = self.place
        self._stalled(Stall(0, seen, self._limit))

    def go(self) -> None:
        """Stop watching."""
        self._over.set()


@contextmanager
def alarm(seconds: float, ring: Callable[[], None]) -> Iterator[None]:
    """Call `ring` from a thread if a block takes longer: for waits inside MPI that nothing can interrupt."""
    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), ring)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
