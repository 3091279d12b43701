"""The ranks that mpirun or srun started: the only module that imports mpi4py."""

import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from ees_mpi import machine
from ees_mpi.ranks.alone import Ranks
from ees_mpi.speech import say_on_stderr

SPINS = 200  # polls before a waiting rank starts to sleep: about 0.1 ms
LONGEST_SLEEP = 1e-3


class World(Ranks):
    """The ranks that mpirun or srun started."""

    def __init__(self) -> None:
        super().__init__()
        self._comm = MPI.COMM_WORLD.Dup()
        self._node: Any = self._comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.rank, self.size = self._comm.rank, self._comm.size
        self.node_rank, self.node_size = self._node.rank, self._node.size
        self.library = MPI.Get_library_version().split("\n")[0].split(",")[0]
        self._windows: list[Any] = []
        names = self.gather(np.array([self.hosts[0]], "S64"), counts=[1] * self.size)
        self.hosts = [name.decode() for name in names]
        self._count_nodes()
        self._dealt = 0
        self._one, self._value = np.ones(1, np.int64), np.empty(1, np.int64)
        self._news = self._comm.Dup()  # on which a rank that is asked to stop says so
        self._listening = self._news.Irecv(np.zeros(1), MPI.ANY_SOURCE)
        self._stopping = False
        self._told: list[Any] = []  # what was sent stays alive as long as this does
        self._counter = self._make_counter()
        sys.excepthook = lambda kind, error, trace: self.fail(error)  # should one come from outside of a job

    def _count_nodes(self) -> None:
        """Find out how many nodes there are, and how many ranks are on the nodes before this one."""
        leader = self._node.allgather(self.rank)[0]
        leaders = self.gather(np.array([leader]), counts=[1] * self.size)
        self.nodes = len(np.unique(leaders))
        self._ranks_before = int((leaders < leader).sum())

    def _make_counter(self) -> Any:
        """Make a counter in the node's shared memory, which a rank can move on while the others compute."""
        window, memory = self._allocate(8, 8)
        if self.node_rank == 0:
            np.frombuffer(memory, np.int64)[:] = 0
        self.node_barrier()
        return window

    def _allocate(self, size: int, item: int) -> tuple[Any, Any]:
        """Make a window of `size` bytes on the node's first rank, open to all its ranks from now on."""
        window = MPI.Win.Allocate_shared(size if self.node_rank == 0 else 0, item, comm=self._node)
        window.Lock_all()
        self._windows.append(window)
        return window, window.Shared_query(0)[0]

    def deal(self, count: int) -> Iterator[int]:
        """Yield this rank's individuals: a node has a fixed slice of them, its ranks take the next one when free.

        Rollouts that end early, and cores that are slower, then leave no rank idle for longer than one rollout.
        """
        low = count * self._ranks_before // self.size
        high = count * (self._ranks_before + self.node_size) // self.size
        start = low - self._dealt
        # Each rank reaches past the end exactly once, so all know where the counter stands at the next deal.
        self._dealt += high - low + self.node_size
        while not self.stopping() and (index := start + self._next()) < high:
            yield index

    def stopping(self) -> bool:
        """Tell whether any rank, as far as this one knows, has been asked to stop; the first one tells the others."""
        if not self._stopping:
            if super().stopping():
                self._stopping = True
                self._told = [self._news.Isend(np.zeros(1), rank) for rank in range(self.size) if rank != self.rank]
            elif self._listening.Test():
                self._stopping, self.stop_signal = True, "another rank's signal"
        return self._stopping

    def _next(self) -> int:
        self._counter.Fetch_and_op(self._one, self._value, 0, 0, MPI.SUM)
        self._counter.Flush(0)
        return int(self._value[0])

    def _wait(self, request: Any) -> None:
        """Wait for a non-blocking operation: the one place where a rank waits, giving its core to others."""
        spins, pause = 0, 1e-5
        while not request.Test():
            spins += 1
            if spins > SPINS:
                time.sleep(pause)
                pause = min(pause * 1.3, LONGEST_SLEEP)

    def gather(self, rows: NDArray[Any], counts: Sequence[int] | None = None) -> NDArray[Any]:
        """Return everyone's rows, in rank order, on every rank; `counts`: how many each rank gives, if known."""
        rows = np.ascontiguousarray(rows)
        if counts is None:
            lengths = np.empty(self.size, np.int64)
            self._wait(self._comm.Iallgather(np.array([len(rows)], np.int64), lengths))
            counts = lengths.tolist()
        everything = np.empty((sum(counts), *rows.shape[1:]), rows.dtype)
        width = rows.dtype.itemsize * int(np.prod(rows.shape[1:], dtype=np.int64))
        sizes = [count * width for count in counts]
        byte = MPI.BYTE
        received = [_bytes_of(everything), sizes, byte]
        self._wait(self._comm.Iallgatherv([_bytes_of(rows), byte], received))
        return everything

    def shared_array(self, count: int, dtype: DTypeLike) -> NDArray[Any]:
        """Return an array that all ranks of this node see, in an MPI-3 shared window."""
        item = np.dtype(dtype).itemsize
        alone: NDArray[Any] = np.empty(0, dtype)
        with self.together():  # any node may lack the room
            if self.node_size == 1:
                alone = super().shared_array(count, dtype)
            elif self.node_rank == 0:
                machine.check_room(count * item, self.hosts[self.rank])
        if self.node_size == 1:
            return alone
        array: NDArray[Any] = np.frombuffer(self._allocate(count * item, item)[1], dtype, count)
        return array

    def node_barrier(self) -> None:
        """Wait until all ranks of this node are here, and see what they wrote to shared arrays."""
        for window in self._windows:
            window.Sync()
        self._wait(self._node.Ibarrier())
        for window in self._windows:
            window.Sync()

    def fail(self, error: BaseException) -> NoReturn:
        """End the job with an error that nobody foresaw: its traceback, once, and no rank left waiting."""
        # Ranks that fail together would all print: the lowest one gets to speak, and to end the others, first.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(min(0.5 * self.rank, 4.0))
        where = f"rank {self.rank} of {self.size} on {self.hosts[self.rank]}"
        trace = "".join(traceback.format_exception(error))
        say_on_stderr(f"ees-mpi: {where} failed and ends the job:\n{trace}")
        self.abort(1)

    def abort(self, code: int) -> NoReturn:
        """End the whole job at once, whatever the other ranks are doing."""
        MPI.COMM_WORLD.Abort(code)
        os._exit(code)

    def leave(self, code: int) -> NoReturn:
        """End the job in good order; only rank 0 carries the exit code, or the launcher kills it half-way."""
        self._wait(self._comm.Ibarrier())
        if not self._listening.Test():
            self._listening.Cancel()
            self._listening.Wait()
        for window in self._windows:
            window.Unlock_all()
            window.Free()
        sys.exit(code if self.first else 0)


def _bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)
