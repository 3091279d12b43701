"""The ranks that mpirun or srun started: the only module that imports mpi4py."""

import contextlib
import functools
import math
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, ParamSpec, TypeVar

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from ees_mpi import machine
from ees_mpi.errors import RanksLost
from ees_mpi.ranks import shared_memory as shared
from ees_mpi.ranks.heartbeat import Place, alarm
from ees_mpi.ranks.launcher import launcher_process
from ees_mpi.ranks.serial import each
from ees_mpi.ranks.supervision import PATIENCE, SETTLING, WatchedRanks
from ees_mpi.terminal import say_on_stderr

SPINS = 200  # polls before a waiting rank starts to sleep: about 0.1 ms
LONGEST_SLEEP = 1e-3
ORPHAN_SECONDS = 5.0  # between two looks whether the launcher is still there
STOP = 2  # the tag under which a rank that is asked to stop says so
SURVIVES = os.environ.get("OMPI_MCA_mpi_ft_enable") == "1"  # set by mpirun --with-ft ulfm
LOST = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED) if SURVIVES else ()

P = ParamSpec("P")
R = TypeVar("R")


def _noticing(method: Callable[P, R]) -> Callable[P, R]:
    """Let a method raise `RanksLost` for what MPI says when another rank has died."""

    @functools.wraps(method)
    def noticing(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return method(*arguments, **named)
        except MPI.Exception as error:
            if error.Get_error_class() not in LOST:
                raise
            raise RanksLost from None

    return noticing


class World(WatchedRanks):
    """The ranks that mpirun or srun started; those of them that are left, under an MPI that survives a death."""

    def __init__(self) -> None:
        super().__init__()
        self.library = MPI.Get_library_version().split("\n")[0].split(",")[0]
        self.survives = SURVIVES
        self._host = self.hosts[0]
        self._comm: Any = MPI.COMM_WORLD
        self._node: Any = None
        self._listening: Any = None
        sys.excepthook = lambda kind, error, trace: self.fail(error)  # should one come from outside of a job
        threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
        try:
            with alarm(PATIENCE, self._give_up):  # nobody watches yet
                self._settle()
        except RanksLost:
            lost = self.recover()
            if self.first:
                say_on_stderr(f"ees-mpi: lost {lost} while starting: going on with what is left\n")

    @_noticing
    def _settle(self) -> None:
        """Find out who is there, and make what the ranks share; everything that a death undoes."""
        self.rank, self.size = self._comm.rank, self._comm.size
        self._node = self._comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.node_rank, self.node_size = self._node.rank, self._node.size
        ones = [1] * self.size
        self.hosts = [name.decode() for name in self.gather(np.array([self._host], "S64"), ones)]
        self.numbers = self.gather(np.array([MPI.COMM_WORLD.rank]), ones).tolist()
        leader = np.array([self.rank])
        self._wait(self._node.Ibcast(leader, 0))
        leaders = self.gather(leader, ones)
        self.nodes = len(np.unique(leaders))
        self._ranks_before = int((leaders < leader).sum())  # how many are on the nodes before this one
        self._mates = np.flatnonzero(leaders == leader).tolist()  # the ranks of this node
        self._pids = self.gather(np.array([os.getpid()]), ones)[self._mates].tolist()
        self._listening = self._comm.Irecv(np.zeros(1), MPI.ANY_SOURCE, STOP)
        self._stopping = False
        self._told: list[Any] = []  # what was sent stays alive as long as this does
        self._dealt = 0
        self._board = shared.Board(*self._share(shared.Board.size(self.node_size)))
        self._board.put(self.node_rank, Place())
        self._start_watch()

    def recover(self) -> str:
        """Go on with the ranks that are left, renumbered; whoever dies meanwhile is left behind, too."""
        if not self.survives:
            raise RanksLost
        before = dict(zip(self.numbers, self.hosts, strict=False))  # not alike where the very first settling failed
        with alarm((self._limit or math.inf) + SETTLING, self._give_up):
            self._shrink()
        lost = [f"rank {number} on {host}" for number, host in before.items() if number not in self.numbers]
        return ", ".join(lost) or "nobody"

    def _shrink(self) -> None:
        failed: list[Any] = [self._watch, self._listening]  # MPI may write to what these hold until it is revoked
        self._watch = None
        while True:
            for comm in (self._comm, self._node):
                if comm:
                    comm.Revoke()  # whoever still waits there learns of it
            self._comm, self._node = self._comm.Shrink(), None
            try:
                return self._settle()
            except RanksLost as lost:
                failed.append(lost)

    def deal(self, individuals: int | Sequence[int], generation: int = -1) -> Iterator[int]:
        """Yield this rank's individuals: a node has a fixed slice of them, its ranks take the next one when free.

        Rollouts that end early, and cores that are slower, then leave no rank idle for longer than one rollout.
        """
        dealt = each(individuals)
        count = len(dealt)
        low = count * self._ranks_before // self.size
        high = count * (self._ranks_before + self.node_size) // self.size
        start = low - self._dealt
        # Each rank reaches past the end exactly once, so all know where the counter stands at the next deal.
        self._dealt += high - low + self.node_size
        while not self.stopping() and (index := start + self._next()) < high:
            self._begin(Place(generation, dealt[index]))
            yield dealt[index]
        self._begin(Place(generation))

    @_noticing
    def _next(self) -> int:
        return self._board.next(self._look_around)

    @_noticing
    def _begin(self, place: Place) -> None:
        self._get_on(place)

    @_noticing
    def stopping(self) -> bool:
        """Tell whether any rank, as far as this one knows, has been asked to stop; the first one tells the others."""
        if not self._stopping:
            if super().stopping():
                self._stopping = True
                others = [rank for rank in range(self.size) if rank != self.rank]
                self._told = [self._comm.Isend(np.zeros(1), rank, STOP) for rank in others]
            elif self._listening.Test():
                self._stopping, self.stop_signal = True, "another rank's signal"
        return self._stopping

    def _wait(self, request: Any) -> None:
        """Wait for a non-blocking operation: the one place where a rank waits, giving its core to others."""
        spins, pause = 0, 1e-5
        while not request.Test():
            spins += 1
            if spins > SPINS:
                self._look_around()
                time.sleep(pause)
                pause = min(pause * 1.3, LONGEST_SLEEP)
        self._get_on()

    @_noticing
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
        """Return an array that all ranks of this node see."""
        size = count * np.dtype(dtype).itemsize
        alone: NDArray[Any] = np.empty(0, dtype)
        with self.together():  # any node may lack the room
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

    @_noticing
    def _share(self, size: int) -> tuple[int, Any]:
        """Return a file of the node's memory, and that memory, the same on all ranks of the node."""
        name = np.zeros(shared.NAME_BYTES, np.uint8)
        try:
            with self.together():
                if self.node_rank == 0:
                    made = shared.create(size).encode()
                    name[: len(made)] = np.frombuffer(made, np.uint8)
            self._wait(self._node.Ibcast(name, 0))
            with self.together():
                found = shared.attach(_text(name), size)
        finally:  # all have it open, or must try again; the first rank may be gone before it gets here
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_text(name))
        return found

    @_noticing
    def node_barrier(self) -> None:
        """Wait until all ranks of this node are here, and see what they wrote to shared arrays."""
        self._wait(self._node.Ibarrier())

    def fail(self, error: BaseException) -> NoReturn:
        """End the job with an error that nobody foresaw: its traceback, once, and no rank left waiting."""
        # Ranks that fail together would all print: the lowest one gets to speak, and to end the others, first.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(min(0.5 * self.rank, 4.0))
        where = f"rank {MPI.COMM_WORLD.rank} of {MPI.COMM_WORLD.size} on {self._host}"
        trace = "".join(traceback.format_exception(error))
        say_on_stderr(f"ees-mpi: {where} failed and ends the job:\n{trace}")
        self.abort(1)

    def abort(self, code: int) -> NoReturn:
        """End the whole job at once, whatever the other ranks are doing."""
        if self.survives:  # MPI's own abort would end this rank only
            # The launcher must hear of this rank's code before it is told to end, or it may end with code 0.
            later = f"sleep 1; kill -TERM {launcher_process()}"
            subprocess.Popen(["/bin/sh", "-c", later], start_new_session=True)
            os._exit(code)
        MPI.COMM_WORLD.Abort(code)
        os._exit(code)

    def leave(self, code: int) -> NoReturn:
        """End the job in good order; only rank 0 carries the exit code, or the launcher kills it half-way."""
        self._mates, self._pids = [], []  # whoever is gone from now on has left in good order
        with contextlib.suppress(RanksLost):  # all is done and closed: a death does not matter any more
            self._bye()
        if self.survives:  # MPI_Finalize may hang once a rank has died; the launcher wants the same code of all
            say_on_stderr("")
            os._exit(code)
        sys.exit(code if self.first else 0)

    @_noticing
    def _bye(self) -> None:
        self._wait(self._comm.Ibarrier())
        if self._watch:
            self._watch.close()
        if not self._listening.Test():
            self._listening.Cancel()
            self._listening.Wait()


def _end_with(launcher: int) -> None:
    """End this rank, should it hang, soon after what started it is gone: nobody else would."""
    while os.getppid() == launcher:
        time.sleep(ORPHAN_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def _text(name: NDArray[np.uint8]) -> str:
    return name.tobytes().rstrip(b"\0").decode()


def _bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)
