"""The ranks of a program whose loop the user writes.

Between two calls of ees_mpi each rank runs code of the user, as long as that takes. So no stall limit holds there. If
one rank leaves the loop, the others get an error at their next call, and do not wait for it.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import numpy as np

from ees_mpi.errors import LaunchError, RanksLost, collective
from ees_mpi.ranks.launch import NAME_BYTES, connect, supervise
from ees_mpi.ranks.serial import Ranks

T = TypeVar("T")


class UserLoop:
    """All ranks of the program. They make the same calls in the same order.

    An exception that nobody catches ends all ranks while this is open, even if only one rank has it.
    """

    def __init__(self, name: str):
        self._hook_before = sys.excepthook
        self.ranks = connect(from_python=True)
        self._hook, self.open = sys.excepthook, True
        if self.ranks.size == 1:
            sys.excepthook = self._hook_before
        self.ranks.check_same(name.encode().ljust(NAME_BYTES), "the function of ees_mpi that is called")
        self.ranks.set_stall_limit(0)

    def call(self, job: Callable[[Ranks], T], stall_seconds: float) -> T:
        """Wait for all ranks, however long that takes; then run a job on them, with a stall limit."""
        if not self.open:
            raise LaunchError("this object is closed, or a rank has left the loop; expected a new one on all ranks")
        return (
            self._together(job, stall_seconds)
            if self.ranks.size == 1
            else supervise(self.ranks, lambda ranks: self._together(job, stall_seconds))
        )

    def _together(self, job: Callable[[Ranks], T], stall_seconds: float) -> T:
        ranks = self.ranks
        here = self._meet(True)
        if not all(here):
            self.open = False
            gone = ", ".join(f"rank {rank}" for rank, stays in enumerate(here) if not stays)
            raise collective(LaunchError(f"{gone} has left the loop; make the same calls on all ranks"))
        ranks.set_stall_limit(stall_seconds)
        try:
            return job(ranks)
        finally:
            ranks.set_stall_limit(0)

    def _meet(self, stays: bool) -> list[bool]:
        """Return which ranks stay in the loop, on every rank."""
        return list(self.ranks.allgather(np.array([stays]), counts=[1] * self.ranks.size))

    def close(self) -> None:
        """Leave the loop; called on all ranks together, or by a rank whose program ends."""
        if not self.open:
            return
        self.open = False
        with suppress(RanksLost):
            if not any(self._meet(False)):
                self.ranks.release()
        if sys.excepthook is self._hook:
            sys.excepthook = self._hook_before
