"""One process on its own, and the face that all ranks have."""

import itertools
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ees_mpi import errors, machine
from ees_mpi.errors import EesError, LaunchError, LockStepError, RunFileError, collective
from ees_mpi.ranks.heartbeat import Place, Stall, Watchman
from ees_mpi.terminal import say_on_stderr

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class Ranks:
    """One process on its own: every gather is the identity."""

    rank = 0
    size = 1
    node_rank = 0
    node_size = 1
    nodes = 1
    library = "none"  # the MPI
    survives = False  # whether the others can go on when a rank dies

    def __init__(self) -> None:
        self.hosts = [socket.gethostname()]
        self.numbers = [0]  # by rank, as the launcher counts: a rank that moves up keeps its number
        self.stop_signal: str | None = None
        self.deadline = math.inf  # of time.monotonic(), at which to stop as a signal would; rank 0 looks
        self._watchman: Watchman | None = None

    @property
    def first(self) -> bool:
        """True on the one rank that writes and prints."""
        return self.rank == 0

    def deal(self, individuals: int | Sequence[int], generation: int = -1) -> Iterator[int]:
        """Yield which of some individuals, or of so many, this rank evaluates, one after the other, as it gets to them.

        Every one is dealt to exactly one rank; to which must not show in the results. A stop ends the dealing.
        `generation`: for the log, should a rank hang.
        """
        for individual in each(individuals):
            if self.stopping():
                break
            self._get_on(Place(generation, individual))
            yield individual
        self._get_on(Place(generation))

    def _get_on(self, place: Place | None = None) -> None:
        """Note that this rank makes progress, and where it is."""
        if self._watchman:
            self._watchman.place = place or Place(*self._watchman.place)  # another one, if equal

    def watch(self, limit: float) -> None:
        """From now on, end the job if a rank that others wait for makes no progress for `limit` seconds; 0: never."""

    @contextmanager
    def watching(self, limit: float) -> Iterator[None]:
        """End the job if any rank, the only one included, makes no progress for `limit` seconds in a block."""
        self._watchman = Watchman(limit, self._stalled) if limit > 0 else None
        try:
            yield
        finally:
            if self._watchman:
                self._watchman.go()

    def _stalled(self, stall: Stall) -> NoReturn:
        """Say who hangs, and end the job."""
        who = "all ranks wait for each other: none"
        if stall.rank is not None:
            who = f"rank {self.numbers[stall.rank]} on {self.hosts[stall.rank]}"
        else:
            time.sleep(min(0.5 * self.rank, 4.0))  # all notice it: the lowest one speaks, and ends the others
        verb = "has made no progress" if stall.rank is not None else "has made any progress"
        say_on_stderr(
            f"ees-mpi: {who} {verb} for {stall.seconds / 60:.3g} minutes (run.stall_minutes); last heard of "
            f"{stall.place}. The job ends; all committed generations are safe, and resume will go on\n"
        )
        self.abort(1)

    def recover(self) -> str:
        """Go on with the ranks that are left after a `RanksLost`; returns who was lost."""
        raise RuntimeError("one process on its own has no ranks to lose")

    def stopping(self) -> bool:
        """Tell whether any rank, as far as this one knows, has been asked to stop; costs next to nothing."""
        if self.stop_signal is None and self.first and time.monotonic() > self.deadline:
            self.stop_signal = "the time limit"
        return self.stop_signal is not None

    def shares(self, count: int) -> list[range]:
        """Cut `count` fixed blocks into one contiguous range per rank."""
        cuts = [count * rank // self.size for rank in range(self.size + 1)]
        return [range(low, high) for low, high in itertools.pairwise(cuts)]

    def gather(self, rows: NDArray[Any], counts: Sequence[int] | None = None) -> NDArray[Any]:
        """Return everyone's rows, in rank order, on every rank; `counts`: how many each rank gives, if known."""
        self._get_on()
        return rows

    def gather_by_index(self, index: NDArray[np.int64], rows: NDArray[Any], total: int) -> NDArray[Any]:
        """Return the rows in index order on every rank: `total` of them, or fewer where a stop ended the dealing."""
        index = self.gather(index)
        rows = self.gather(rows)
        order = np.argsort(index)
        whole = np.array_equal(index[order], np.arange(total))
        if not whole and (len(np.unique(index)) != len(index) or not self.any(self.stopping())):
            raise collective(LockStepError(f"expected each of {total} results once, got {len(index)}"))
        return rows[order]

    def shared_array(self, count: int, dtype: DTypeLike) -> NDArray[Any]:
        """Return an array that all ranks of this node see."""
        try:
            return np.empty(count, dtype)
        except MemoryError:
            raise LaunchError(f"the noise table of {count} numbers does not fit in memory; set noise.size") from None

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
        except OSError as error:
            mine = RunFileError(str(error))
        failed = self.gather(np.array([mine is not None]), counts=[1] * self.size)
        if failed.any():
            raise self._agree_on_error(mine, int(failed.argmax()))

    def _agree_on_error(self, mine: EesError | None, rank: int) -> EesError:
        text = f"{type(mine).__name__}\n{mine}".encode() if mine and rank == self.rank else b""
        name, _, message = self.gather(np.frombuffer(text, np.uint8)).tobytes().decode().partition("\n")
        return collective(errors.BY_NAME.get(name, EesError)(message))

    def check_same(self, digest: bytes, what: str) -> None:
        """Raise on every rank, naming the odd ones, unless all ranks give the same digest."""
        row = np.frombuffer(digest, np.uint8)[None]
        rows = self.gather(row, counts=[1] * self.size)
        if (rows == rows[0]).all():
            return
        kinds, sizes = np.unique(rows, axis=0, return_counts=True)
        usual = kinds[sizes.argmax()]
        odd = [r for r in range(self.size) if not np.array_equal(rows[r], usual)]
        message = f"{what} is not the same on all ranks: {self._names(odd)} differ from the others"
        raise collective(LockStepError(message))

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
        listed = ", ".join(f"rank {self.numbers[rank]} on {self.hosts[rank]}" for rank in ranks[:8])
        return listed + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")

    def fail(self, error: BaseException) -> NoReturn:
        """End the job with an error that nobody foresaw."""
        raise error

    def abort(self, code: int) -> NoReturn:
        """End the whole job at once, whatever the other ranks are doing."""
        os._exit(code)

    def leave(self, code: int) -> NoReturn:
        """End the job in good order; only rank 0 carries the exit code."""
        sys.exit(code)


def each(individuals: int | Sequence[int]) -> Sequence[int]:
    return range(individuals) if isinstance(individuals, int) else individuals
