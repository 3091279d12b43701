"""The ranks that mpirun or srun started: the only module that imports mpi4py."""

import contextlib
import functools
import math
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, ParamSpec, TypeVar

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from ees_mpi import machine
from ees_mpi.errors import EesError, RanksLost
from ees_mpi.ranks import shared_memory as shared
from ees_mpi.ranks.allgather import Allgather
from ees_mpi.ranks.heartbeat import HeartbeatRing, Progress, cancel, time_limit
from ees_mpi.ranks.launcher import die_with_launcher, launcher_process
from ees_mpi.ranks.meeting import Meeting
from ees_mpi.ranks.slices import Slices
from ees_mpi.ranks.supervision import RECONNECT_SECONDS, STALL_SECONDS, STOP_TAG, SupervisedRanks
from ees_mpi.terminal import say_on_stderr, tell

POLLS_BEFORE_SLEEP = 200  # of a waiting rank: about 0.1 ms
LONGEST_SLEEP = 1e-3
FAULT_TOLERANT = os.environ.get("OMPI_MCA_mpi_ft_enable") == "1"  # set by mpirun --with-ft ulfm
LOST = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED) if FAULT_TOLERANT else ()

P = ParamSpec("P")
R = TypeVar("R")


def _raises_ranks_lost(method: Callable[P, R]) -> Callable[P, R]:
    """Let a method raise `RanksLost` for the errors of MPI that mean that another rank has died."""

    @functools.wraps(method)
    def wrapped(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return method(*arguments, **named)
        except MPI.Exception as error:
            if error.Get_error_class() not in LOST:
                raise
            raise RanksLost from None

    return wrapped


MEETING = Meeting(MPI.COMM_WORLD)  # of the ranks of this job, if they call functions such as `ees_mpi.train`


class World(SupervisedRanks):
    """The ranks that mpirun or srun started; if MPI is fault-tolerant, those that are still alive."""

    def __init__(self, comm: Any = MPI.COMM_WORLD) -> None:
        super().__init__()
        self.library = MPI.Get_library_version().split("\n")[0].split(",")[0]
        self.fault_tolerant = FAULT_TOLERANT
        self._host = self.hosts[0]
        self._comm = comm
        self._node: Any = None
        sys.excepthook = lambda kind, error, trace: self.fail(error)  # for errors outside of a job
        die_with_launcher()
        try:
            with time_limit(STALL_SECONDS, self._abort_connecting):  # there are no heartbeats yet
                self._connect()
        except RanksLost:
            lost = self.recover()
            if self.is_root:
                say_on_stderr(f"ees-mpi: lost {lost} while starting; continuing with the other ranks\n")

    @_raises_ranks_lost
    def _connect(self) -> None:
        """Find the other ranks, and create everything that the death of a rank invalidates."""
        self.rank, self.size = self._comm.rank, self._comm.size
        self._node = self._comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.node_rank, self.node_size = self._node.rank, self._node.size
        ones = [1] * self.size
        leader = np.array([self.rank])  # of the node: its lowest rank
        self._wait(self._node.Ibcast(leader, 0))
        leaders = np.empty(self.size, np.int64)
        self._wait(self._comm.Iallgather(leader, leaders))
        self._allgather = Allgather(self._comm, self._node, leaders, lambda request: self._wait(request))
        self.hosts = [name.decode() for name in self.allgather(np.array([self._host], "S64"), ones)]
        self.launch_ranks = self.allgather(np.array([MPI.COMM_WORLD.rank]), ones).tolist()
        _, self._node_of, sizes = np.unique(leaders, return_inverse=True, return_counts=True)
        self.nodes, self._slices = len(sizes), Slices(sizes)
        self._node_ranks = np.flatnonzero(leaders == leader).tolist()
        self._node_pids = self.allgather(np.array([os.getpid()]), ones)[self._node_ranks].tolist()
        self._stop_request = self._comm.Irecv(np.zeros(1), MPI.ANY_SOURCE, STOP_TAG)
        self._stopping = False
        self._stop_messages: list[Any] = []  # keeps the buffers of the sends alive
        self._dealt = 0  # the node's counter of dealt individuals at the beginning of the next deal
        self._node_progress = shared.NodeProgress(*self._share(shared.NodeProgress.bytes_for(self.node_size)))
        self._node_progress.set(self.node_rank, Progress())
        self._heartbeats = HeartbeatRing(self._comm, self._stall_seconds) if self.size > 1 else None

    def recover(self) -> str:
        """Reconnect the ranks that are left, with new numbers; ranks that die meanwhile are lost, too."""
        if not self.fault_tolerant:
            raise RanksLost
        before = dict(zip(self.launch_ranks, self.hosts, strict=False))  # lengths differ if the first `_connect` failed
        with time_limit((self._stall_seconds or math.inf) + RECONNECT_SECONDS, self._abort_connecting):
            self._shrink()
        lost = [f"rank {number} on {host}" for number, host in before.items() if number not in self.launch_ranks]
        return ", ".join(lost) or "nobody"

    def _shrink(self) -> None:
        keep: list[Any] = [self._heartbeats, self._stop_request]  # MPI may write to their buffers until the revoke
        self._heartbeats = None
        while True:
            for comm in (self._comm, self._node):
                if comm:
                    comm.Revoke()  # ends the waits of all ranks
            self._comm, self._node = self._comm.Shrink(), None
            try:
                return self._connect()
            except RanksLost as lost:
                keep.append(lost)

    def deal(self, individuals: Sequence[int], generation: int = -1) -> Iterator[int]:
        """Yield this rank's individuals: each node has a slice by its speed, and a free rank takes the next one of it.

        So no rank of a node is idle for longer than one rollout, even if rollouts end early or cores differ in speed.
        """
        here = self._node_of[self.rank]
        low, high = self._slices.cut(len(individuals))[here : here + 2].tolist()
        start = low - self._dealt
        # Each rank counts past the end exactly once, so all ranks know the counter at the next deal.
        self._dealt += high - low + self.node_size
        while not self.stopping() and (index := start + self._next()) < high:
            self._note_progress(Progress(generation, individuals[index]))
            yield individuals[index]
        self._note_progress(Progress(generation))

    def balance(self, seconds: NDArray[np.float64]) -> None:
        """Let the next deal give less to slower nodes; `seconds` [P]: those of each rank for its part of the last."""
        self._slices.balance(np.bincount(self._node_of, seconds) / np.bincount(self._node_of))

    @_raises_ranks_lost
    def _note_progress(self, progress: Progress | None = None) -> None:
        super()._note_progress(progress)

    @_raises_ranks_lost
    def _next(self) -> int:
        return self._node_progress.deal_next(self._check_peers)

    @_raises_ranks_lost
    def stopping(self) -> bool:
        """Return True if this rank knows that any rank was asked to stop; a rank that was asked tells the others."""
        if not self._stopping:
            if super().stopping():
                self._stopping = True
                others = [rank for rank in range(self.size) if rank != self.rank]
                self._stop_messages = [self._comm.Isend(np.zeros(1), rank, STOP_TAG) for rank in others]
            elif self._stop_request.Test():
                self._stopping, self.stop_signal = True, "another rank's signal"
        return self._stopping

    def _wait(self, request: Any) -> None:
        """Wait for a non-blocking operation. All waits are here: a waiting rank checks its peers and frees its core."""
        polls, pause = 0, 1e-5
        while not request.Test():
            polls += 1
            if polls > POLLS_BEFORE_SLEEP:
                self._check_peers()
                time.sleep(pause)
                pause = min(pause * 1.3, LONGEST_SLEEP)
        self._note_progress()

    @_raises_ranks_lost
    def allgather(self, rows: NDArray[Any], counts: Sequence[int] | None = None) -> NDArray[Any]:
        """Return the rows of all ranks, in rank order, on every rank; `counts`: the rows of each rank, if known."""
        rows = np.ascontiguousarray(rows)
        if counts is None:
            counts = self.allgather(np.array([len(rows)]), [1] * self.size).tolist()
        width = rows.dtype.itemsize * int(np.prod(rows.shape[1:], dtype=np.int64))
        everything = self._allgather(_bytes_of(rows), np.array(counts, np.int64) * width)
        return everything.view(rows.dtype).reshape(sum(counts), *rows.shape[1:])

    def shared_array(self, count: int, dtype: DTypeLike) -> NDArray[Any]:
        """Return an array that all ranks of this node share."""
        size = count * np.dtype(dtype).itemsize
        alone: NDArray[Any] = np.empty(0, dtype)
        with self.together():  # memory may be short on any node
            if self.node_size == 1:
                alone = super().shared_array(count, dtype)
            elif self.node_rank == 0:
                machine.check_room(size, self._host)
        if self.node_size == 1 or not count:
            return alone
        file, memory = self._share(size)
        os.close(file)  # the mapping stays
        array: NDArray[Any] = np.frombuffer(memory, dtype, count)
        return array

    @_raises_ranks_lost
    def _share(self, size: int) -> tuple[int, Any]:
        """Return a file of shared memory, and its mapping, the same on all ranks of the node."""
        name = np.zeros(1, f"S{shared.NAME_BYTES}")
        try:
            with self.together():
                if self.node_rank == 0:
                    name[0] = shared.create(size).encode()
            self._wait(self._node.Ibcast(_bytes_of(name), 0))
            with self.together():
                return shared.attach(name[0].decode(), size)
        finally:  # all ranks have opened it, or must try again; rank 0 of the node may die before it gets here
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name[0].decode())

    @_raises_ranks_lost
    def node_barrier(self) -> None:
        """Wait for all ranks of this node; after it, this rank sees all that they wrote to shared arrays."""
        self._wait(self._node.Ibarrier())

    def fail(self, error: BaseException) -> NoReturn:
        """End the job after an error that only this rank may have; an unexpected one is printed with its traceback."""
        self.take_turn()
        if isinstance(error, EesError):
            self.abort(tell(error))
        where = f"rank {MPI.COMM_WORLD.rank} of {MPI.COMM_WORLD.size} on {self._host}"
        trace = "".join(traceback.format_exception(error))
        say_on_stderr(f"ees-mpi: {where} failed and ends the job:\n{trace}")
        self.abort(1)

    def abort(self, code: int) -> NoReturn:
        """End the whole job at once."""
        if self.fault_tolerant:  # MPI's own abort would end only this rank
            # The launcher must receive this rank's exit code before the signal, or it may exit with code 0.
            later = f"sleep 1; kill -TERM {launcher_process()}"
            subprocess.Popen(["/bin/sh", "-c", later], start_new_session=True)
            os._exit(code)
        MPI.COMM_WORLD.Abort(code)
        os._exit(code)

    def release(self) -> None:
        """Free all resources after a job that was called from Python; called on all ranks together."""
        with contextlib.suppress(RanksLost):  # all is done and closed: a death does not matter any more
            _raises_ranks_lost(self._drain)()
        self._node_progress.close()
        if self.fault_tolerant:
            MEETING.continue_with(self._comm)  # without the ranks that have died
        else:
            self._node.Free()
            self._comm.Free()

    def leave(self, code: int) -> NoReturn:
        """Exit after all ranks are done; only rank 0 exits with `code`, or the launcher would kill the others."""
        self._node_ranks, self._node_pids = [], []  # from now on, a rank that is gone has not died
        # All is done: under ULFM, ranks that have left first may end the barrier with any error of MPI.
        with contextlib.suppress(RanksLost, *([MPI.Exception] if self.fault_tolerant else [])):
            self._close()
        if self.fault_tolerant:  # MPI_Finalize may hang after a death; this launcher wants the same code from all
            say_on_stderr("")
            os._exit(code)
        sys.exit(code if self.is_root else 0)

    @_raises_ranks_lost
    def _close(self) -> None:
        self._wait(self._comm.Ibarrier())
        if self._heartbeats:
            self._heartbeats.close()
        cancel(self._stop_request)


def _bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)
