"""The ranks that mpirun or srun started: the only module that imports mpi4py."""

import atexit
import contextlib
import math
import mmap
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from ees_mpi import memory
from ees_mpi.errors import ConfigError, EesError, LaunchError, callers
from ees_mpi.memory import SHARED_MEMORY, SHARED_PREFIX
from ees_mpi.ranks import process
from ees_mpi.ranks.serial import RENEW_SECONDS, Ranks
from ees_mpi.terminal import plain, say_on_stderr, tell

POLLS_BEFORE_SLEEP = 200  # of a waiting rank: about 0.1 ms
MAX_SLEEP = 1e-3
PATH_BYTES = 256  # of a file of shared memory
STALL_SECONDS = 1800.0  # without progress, until the config sets another limit


def wait_for(request: Any, seconds: float = math.inf) -> bool:
    """Wait for a non-blocking operation; return False if it takes longer. A waiting rank frees its core."""
    deadline, polls, pause = time.monotonic() + seconds, 0, 1e-5
    while not request.Test():
        polls += 1
        if polls > POLLS_BEFORE_SLEEP:
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(pause * 1.3, MAX_SLEEP)
    return True


class MpiRanks(Ranks):
    """All ranks of a communicator."""

    def __init__(
        self, comm: Any = MPI.COMM_WORLD, start_seconds: float = STALL_SECONDS, from_python: bool = False
    ) -> None:
        """Find the other ranks; `start_seconds`: the limit until all are found.

        from_python: the user's program called; then a single process has no time limit
        """
        super().__init__(limited=comm.size > 1 or not from_python)
        self._limit, self._from_python = start_seconds, from_python
        self.library = MPI.Get_library_version().split("\n")[0].split(",")[0]
        self._host = self.hosts[0]
        self._comm, self.rank, self.size = comm, comm.rank, comm.size
        sys.excepthook = lambda kind, error, trace: self.fail(error)  # for errors outside of a job
        self._node = comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.node_rank, self.node_size = self._node.rank, self._node.size
        leader = np.array([self.rank])  # of the node: its lowest rank
        self._node.Bcast(leader, 0)
        _, self._node_of, sizes = np.unique(self.each(leader[0]), return_inverse=True, return_counts=True)
        self.nodes, self._ranks_before = len(sizes), np.concatenate([[0], np.cumsum(sizes)])  # each node
        self.hosts = [name.decode() for name in self.each(np.array(self._host, "S64"))]
        self._handed_out = 0  # individuals: the node's counter at the beginning of the next `hand_out`
        self._counter = MPI.Win.Allocate_shared(8 if self.node_rank == 0 else 0, 8, comm=self._node)
        if self.node_rank == 0:
            self._counter.tomemory()[:] = bytes(8)
        self.node_barrier()
        self._counter.Lock_all(MPI.MODE_NOCHECK)
        self.set_stall_limit(STALL_SECONDS)

    def hand_out(self, individuals: Sequence[int]) -> Iterator[int]:
        """Yield this rank's individuals: each node has a slice by its ranks, and a free rank takes the next one of it.

        So no rank of a node is idle for longer than one rollout, even if rollouts end early or cores differ in speed.
        If only some ranks of a node are asked to stop, the others take all its individuals, and none is missing.
        """
        here = self._node_of[self.rank]
        low, high = (len(individuals) * self._ranks_before[here : here + 2] // self.size).tolist()
        start = low - self._handed_out
        # Each rank counts past the end exactly once, so all ranks know the counter at the next `hand_out`.
        self._handed_out += high - low + self.node_size
        while not self.stopping() and (index := start + self._next()) < high:
            self._renew_limit()
            yield individuals[index]
        self._renew_limit()

    def _next(self) -> int:
        """Return the node's counter of individuals that were handed out, and count one more."""
        one, before = np.ones(1, np.int64), np.zeros(1, np.int64)
        self._counter.Fetch_and_op(one, before, 0, 0, MPI.SUM)
        self._counter.Flush(0)
        return int(before[0])

    def _wait(self, request: Any) -> None:
        """Wait for a non-blocking operation of all ranks; all long waits are here.

        If a rank does not come, its own time limit ends the job and prints its stack. If it cannot (it is stopped, or
        lost), the ranks that wait for it end the job a little later, the lowest one first.
        """
        soon = min(RENEW_SECONDS, self._limit / 4) or math.inf
        if wait_for(request, soon):
            self._renew_limit()
            return
        rest = self._limit + process.patience(self.rank)
        process.arm(rest + process.MARGIN)  # last of all: the stack of a rank that waits says nothing
        if not wait_for(request, rest - soon):
            self._end_waiting(rest)
        self._renew_limit(at_once=True)

    def _end_waiting(self, seconds: float) -> NoReturn:
        text = (
            f"ees-mpi: {self._names([self.rank])} has waited {seconds / 60:.3g} minutes for other ranks, longer than "
            "run.stall_minutes (at the start: EES_MPI_START_MINUTES); one is stopped or lost. The job ends. "
            f"{self.advice}\n"
        )
        with contextlib.suppress(OSError):
            os.write(2, plain(text).encode())
        self.abort(1)

    def _meet(self) -> None:
        """Wait for all ranks, which come at different times; the collective after it is short."""
        self._wait(self._comm.Ibarrier())

    def allgather(self, rows: NDArray[Any], counts: NDArray[np.int64] | None = None) -> NDArray[Any]:
        rows = np.ascontiguousarray(rows)
        if counts is None:
            counts = self.each(len(rows))
        everything = np.empty((int(counts.sum()), *rows.shape[1:]), rows.dtype)
        self._meet()
        if everything.nbytes:
            row = MPI.BYTE.Create_contiguous(everything.nbytes // len(everything)).Commit()  # counts stay below 2**31
            self._comm.Allgatherv([rows, len(rows), row], [everything, counts.tolist(), row])
            row.Free()
        return everything

    def each(self, value: Any) -> NDArray[Any]:
        mine = np.array(value)
        everything = np.empty((self.size, *mine.shape), mine.dtype)
        self._meet()
        self._comm.Allgather([mine, mine.nbytes, MPI.BYTE], [everything, mine.nbytes, MPI.BYTE])
        return everything

    def maximum(self, values: NDArray[Any]) -> NDArray[Any]:
        largest = np.empty_like(values)
        self._meet()
        self._comm.Allreduce(values, largest, MPI.MAX)
        return largest

    def broadcast(self, data: bytes | None) -> bytes:
        sent = data or b"" if self.is_root else b""
        buffer = np.empty(self.maximum(np.array([len(sent)]))[0], np.uint8)
        if self.is_root:
            buffer[:] = np.frombuffer(sent, np.uint8)
        self._meet()
        self._comm.Bcast([buffer, MPI.BYTE], 0)
        return buffer.tobytes()

    def shared_array(self, count: int, dtype: DTypeLike, beside: int = 0) -> NDArray[Any]:
        if not count:
            return np.empty(0, dtype)
        size, several = count * np.dtype(dtype).itemsize, self.node_size > 1
        name = np.zeros(1, f"S{PATH_BYTES}")
        try:
            with self.together():  # memory may be short on any node
                if self.node_rank == 0:
                    memory.check(size, self.node_size, beside, self._host, shared=several)
            with self.together():  # a rank that failed earlier ends the job before there is a file
                if self.node_rank == 0 and several:
                    name[0] = create_memory(size).encode()
            self._node.Bcast(name.view(np.uint8), 0)
            with self.together():  # all ranks, also one that is alone on its node and has no file
                array = self._part_of(name[0].decode(), size) if several else np.empty(size, np.uint8)
        finally:  # all ranks have mapped it, or none needs it any more
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name[0].decode())
        return array.view(dtype)

    def _part_of(self, path: str, size: int) -> NDArray[np.uint8]:
        """Return the memory of a file, after this rank has allocated its part of it: it lies near this rank's core."""
        low, high = (size * place // self.node_size for place in (self.node_rank, self.node_rank + 1))
        with open(path, "r+b") as file:
            try:
                if high > low:
                    os.posix_fallocate(file.fileno(), low, high - low)  # at a first write, want of memory would kill
            except OSError as error:
                raise ConfigError(
                    f"cannot allocate {size / 2**20:.0f} MiB of shared memory in {os.path.dirname(path)} on "
                    f"{self._host}: {error.strerror}; set noise.size smaller, or give the machine more"
                ) from None
            return np.frombuffer(mmap.mmap(file.fileno(), size), np.uint8)

    def node_barrier(self) -> None:
        self._wait(self._node.Ibarrier())

    def fail(self, error: BaseException) -> NoReturn:
        """End the job after an error that only this rank may have; an unexpected one is printed with its traceback."""
        process.let_root_speak(self.rank)
        if isinstance(error, EesError):
            self.abort(tell(error, callers(error) if self._from_python else ""))
        trace = "".join(traceback.format_exception(error))
        say_on_stderr(f"ees-mpi: rank {self.rank} of {self.size} on {self._host} failed and ends the job:\n{trace}")
        self.abort(1)

    def abort(self, code: int) -> NoReturn:
        end_job(code)

    def release(self) -> None:
        self._counter.Unlock_all()
        self._counter.Free()
        self._node.Free()
        if self._comm != MPI.COMM_WORLD:
            self._comm.Free()
        process.disarm()
        self.limited = False

    def leave(self, code: int) -> NoReturn:
        """Exit after all ranks are done; only rank 0 exits with `code`."""
        self.release()
        sys.exit(code if self.is_root else 0)


def end_job(code: int) -> NoReturn:
    """End all ranks, after the launcher has read the last message of this one."""
    process.await_reader()
    MPI.COMM_WORLD.Abort(code)
    os._exit(code)


def finalize() -> None:
    """End MPI, which waits for all ranks, unless it has ended or did not start."""
    if MPI.Is_initialized() and not MPI.Is_finalized():
        MPI.Finalize()


class Calls:
    """Connects the ranks of a program at the beginning of each call from Python; one per process."""

    def __init__(self) -> None:
        self.comm: Any = None  # a private copy of the world, from the first call on
        self._problem = ""  # of a call that has failed

    def connect(self, minutes: float) -> Any:
        """Wait for all ranks; return a new communicator for the call."""
        if not self._problem and not wait_for((self.comm or MPI.COMM_WORLD).Ibarrier(), 60 * minutes):
            self._problem = (
                f"not all ranks called this function within {minutes:g} minutes (EES_MPI_START_MINUTES); call the same "
                "function of ees_mpi on all ranks"
            )
            atexit.register(end_job, 1)  # the end of MPI would wait for the ranks that are not here
        if self._problem:
            raise LaunchError(self._problem)
        self.comm = self.comm or MPI.COMM_WORLD.Dup()
        return self.comm.Dup()


CALLS = Calls()


def create_memory(size: int) -> str:
    """Create a file of `size` bytes of memory and return its name. Unlink it when all ranks have attached it.

    This is not an MPI window: a numpy view of one crashes after the window is freed, and views of the noise table
    outlive a call. The kernel frees this memory with the last process that maps it.
    """
    import tempfile

    folder = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
    file, path = tempfile.mkstemp(prefix=SHARED_PREFIX, dir=folder)
    os.truncate(file, size)
    os.close(file)
    return path
