"""The ranks that mpirun or srun started: the only module that imports mpi4py."""

import contextlib
import functools
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, ParamSpec, TypeVar

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from ees_mpi import machine
from ees_mpi.errors import RanksLost
from ees_mpi.ranks import shared
from ees_mpi.ranks.alone import Ranks, each
from ees_mpi.ranks.watch import Place, Watch
from ees_mpi.speech import say_on_stderr

SPINS = 200  # polls before a waiting rank starts to sleep: about 0.1 ms
LONGEST_SLEEP = 1e-3
STOP = 2  # the tag under which a rank that is asked to stop says so
SETTLING = 60.0  # seconds in which ranks find together again once the slowest is there
PATIENCE = 1800.0  # seconds for the slowest, as long as no stall limit is known
LAUNCHERS = ("prterun", "prted", "mpirun", "mpiexec")
LAST_SECONDS = 5.0  # that the launcher has to end the job
LOST = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED)

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


class World(Ranks):
    """The ranks that mpirun or srun started; those of them that are left, under an MPI that survives a death."""

    def __init__(self) -> None:
        super().__init__()
        self.library = MPI.Get_library_version().split("\n")[0].split(",")[0]
        self.survives = os.environ.get("OMPI_MCA_mpi_ft_enable") == "1"  # mpirun --with-ft ulfm
        self._host = self.hosts[0]
        self._comm: Any = MPI.COMM_WORLD
        self._node: Any = None
        self._watch: Watch | None = None
        self._limit = PATIENCE
        self._alarm: threading.Timer | None = None
        sys.excepthook = lambda kind, error, trace: self.fail(error)  # should one come from outside of a job
        try:
            self._settle()
        except RanksLost:
            self.recover()
            self._end_alarm()

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
        self._pids = self.gather(np.array([os.getpid()]), ones)[leaders == leader].tolist()
        self._mates = [self._names([rank]) for rank in range(self.size) if leaders[rank] == leader]
        self._listening = self._comm.Irecv(np.zeros(1), MPI.ANY_SOURCE, STOP)
        self._stopping = False
        self._told: list[Any] = []  # what was sent stays alive as long as this does
        self._dealt = 0
        self._counter = shared.Counter(*self._share(shared.Counter.SIZE))

    def recover(self) -> str:
        """Go on with the ranks that are left, renumbered; whoever dies meanwhile is left behind, too."""
        if not self.survives:
            raise RanksLost
        self._watch = None
        self._end_alarm()
        if self._limit > 0:
            self._alarm = threading.Timer(self._limit + SETTLING, self._give_up)
            self._alarm.daemon = True
            self._alarm.start()
        before = dict(zip(self.numbers, self.hosts, strict=True))
        while True:
            for comm in (self._comm, self._node):
                if comm:
                    comm.Revoke()  # whoever still waits there learns of it
            self._comm, self._node = self._comm.Shrink(), None
            with contextlib.suppress(RanksLost):
                self._settle()
                lost = [f"rank {number} on {host}" for number, host in before.items() if number not in self.numbers]
                return ", ".join(lost) or "nobody"

    def _give_up(self) -> None:
        """End the job where the ranks that are left do not find together: called from a thread, for none returns."""
        say_on_stderr(
            f"ees-mpi: ranks were lost, and those left did not get going again within {self._limit / 60:.3g} minutes; "
            "the job ends. All committed generations are safe, and resume will go on\n"
        )
        self.abort(1)

    def _end_alarm(self) -> None:
        if self._alarm:
            self._alarm.cancel()
            self._alarm = None

    def watch(self, limit: float) -> None:
        """From now on, end the job if any rank makes no progress for `limit` seconds; 0: never."""
        self._limit = limit
        self._end_alarm()
        if self.size == 1:
            super().watch(limit)
        elif limit > 0:
            self._watch = Watch(self._comm, limit)

    @_noticing
    def _get_on(self, place: Place | None = None) -> None:
        super()._get_on(place)
        if self._watch and (stall := self._watch.get_on(place)):
            self._stalled(stall)

    @_noticing
    def _look_around(self) -> None:
        if self._watch and (stall := self._watch.look()):
            self._stalled(stall)

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
            self._get_on(Place(generation, dealt[index]))
            yield dealt[index]
        self._get_on(Place(generation))

    def _next(self) -> int:
        return self._counter.next(self._look_around)

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
        with self.together():
            if self.node_rank == 0:
                made = shared.create(size).encode()
                name[: len(made)] = np.frombuffer(made, np.uint8)
        self._wait(self._node.Ibcast(name, 0))
        path = name.tobytes().rstrip(b"\0").decode()
        try:
            with self.together():
                found = shared.attach(path, size)
        finally:  # all have it open, or must try again; the first rank may be gone before it gets here
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        return found

    @_noticing
    def node_barrier(self) -> None:
        """Wait until all ranks of this node are here, and see what they wrote to shared arrays."""
        self._wait(self._node.Ibarrier())

    def _note_signal(self, number: int, frame: FrameType | None) -> None:
        """Note a stop, as any process does; tell whose death is behind it, where the launcher ends the job for that."""
        super()._note_signal(number, frame)
        if number == signal.SIGTERM and not self.survives:
            gone = [place for place, pid in enumerate(self._pids) if not os.path.exists(f"/proc/{pid}")]
            here = self._pids.index(os.getpid())
            if gone and all(place in gone for place in range(here)):  # the lowest one left on the node speaks
                say_on_stderr(
                    f"ees-mpi: {', '.join(self._mates[place] for place in gone)} died, and this MPI ends the job. All "
                    "committed generations are safe: run the same command with --resume, or `ees-mpi resume`\n"
                )

    def fail(self, error: BaseException) -> NoReturn:
        """End the job with an error that nobody foresaw: its traceback, once, and no rank left waiting."""
        # Ranks that fail together would all print: the lowest one gets to speak, and to end the others, first.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(min(0.5 * self.rank, 4.0))
        where = f"rank {self.rank} of {self.size} on {self._host}"
        trace = "".join(traceback.format_exception(error))
        say_on_stderr(f"ees-mpi: {where} failed and ends the job:\n{trace}")
        self.abort(1)

    def abort(self, code: int) -> NoReturn:
        """End the whole job at once, whatever the other ranks are doing."""
        if self.survives:  # MPI's own abort would end this rank only
            os.kill(_launcher(), signal.SIGTERM)
            time.sleep(LAST_SECONDS)
        MPI.COMM_WORLD.Abort(code)
        os._exit(code)

    def leave(self, code: int) -> NoReturn:
        """End the job in good order; only rank 0 carries the exit code, or the launcher kills it half-way."""
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


def _launcher() -> int:
    """Return the process id of the launcher's part on this node: the parent, but for wrappers in between."""
    pid = os.getppid()
    while pid > 1:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        if words[0].partition("(")[2] in LAUNCHERS:
            return pid
        pid = int(words[2].split()[1])
    return os.getppid()


def _bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)
