"""The meeting of all ranks at the beginning of each call from Python, such as `ees_mpi.train`.

A Python program may call a function on some ranks only, or a rank may end before the others. The other ranks then wait
for it here: they raise an error at once if it has exited after an earlier call, and after the start limit otherwise.
"""

import atexit
import time
from contextlib import suppress
from typing import Any

import numpy as np

from ees_mpi.errors import LaunchError
from ees_mpi.ranks.start_limit import limit_minutes

LEFT_TAG = 3  # of the message that a rank exits
POLL_SECONDS = 1e-3
ADVICE = "call the same function of ees_mpi on all ranks"


class Meeting:
    """The place where the ranks of a program meet; one per process."""

    def __init__(self, comm: Any):
        self._comm = comm  # a private copy from the first meeting on
        self._private = self._used = False
        self._problem = ""  # of a meeting that has failed
        self._timed_out = False
        self._goodbyes: list[Any] = []  # keeps the buffers of the messages alive

    def meet(self) -> Any:
        """Wait for all ranks; return a new communicator for the call."""
        if not self._used:
            self._used = True
            atexit.register(self._leave)
        request = None if self._problem else self._comm.Ibarrier()
        minutes = limit_minutes()
        deadline = time.monotonic() + 60 * minutes
        while request and not request.Test():
            if self._private and self._comm.Iprobe(tag=LEFT_TAG):
                self._note_left()
            elif time.monotonic() > deadline:
                self._timed_out = True
                self._problem = (
                    f"not all ranks called this function within {minutes:g} minutes (EES_MPI_START_MINUTES); {ADVICE}"
                )
            if self._problem:
                break
            time.sleep(POLL_SECONDS)
        if self._problem:
            raise LaunchError(self._problem)
        if not self._private:
            self.continue_with(self._comm.Dup())
        return self._comm.Dup()

    def continue_with(self, comm: Any) -> None:
        """Meet the ranks of this communicator from now on."""
        self._comm, self._private = comm, True

    def _note_left(self) -> None:
        gone = np.zeros(1, np.int64)
        self._comm.Recv(gone, tag=LEFT_TAG)
        self._problem = f"rank {gone[0]} has exited; {ADVICE}"
        if self._comm.rank == 0:
            self._tell_others(int(gone[0]))

    def _tell_others(self, gone: int) -> None:
        """Tell rank 0 that this rank exits. Rank 0 tells all ranks: so there are few messages."""
        others = range(1, self._comm.size) if self._comm.rank == 0 else range(1)
        message = np.array([gone], np.int64)
        with suppress(RuntimeError):  # of MPI: a rank may have died
            self._goodbyes += [message, *(self._comm.Isend(message, rank, LEFT_TAG) for rank in others)]

    def _leave(self) -> None:
        """At the exit of the process, before MPI ends."""
        if self._timed_out:
            self._comm.Abort(1)  # the end of MPI would wait for the ranks that are not here
        if not self._problem:
            self._tell_others(self._comm.rank)
