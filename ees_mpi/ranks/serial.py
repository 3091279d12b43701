"""A single process, and the methods that ranks have with and without MPI."""

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

from ees_mpi import errors, machine, watchdog
from ees_mpi.errors import EesError, LaunchError, LockStepError, RunFileError, collective
from ees_mpi.ranks.heartbeat import HeartbeatThread, Progress, Stall
from ees_mpi.ranks.signals import EARLY, STOP_SIGNALS, settable
from ees_mpi.terminal import say_on_stderr


class Ranks:
    """A single process: every allgather is the identity."""

    rank = 0
    size = 1
    node_rank = 0
    node_size = 1
    nodes = 1
    library = "none"  # the MPI
    fault_tolerant = False  # True: the other ranks continue if one dies

    def __init__(self) -> None:
        self.hosts = [socket.gethostname()]
        self.launch_ranks = [0]  # the rank that the launcher gave each rank: it stays the same after others died
        self.stop_signal: str | None = None
        self.deadline = math.inf  # of time.monotonic(), when rank 0 stops the run as a signal would
        self._heartbeat: HeartbeatThread | None = None
        self.resumable = False  # True: there is a run file that `resume` can continue after an error

    @property
    def is_root(self) -> bool:
        """True on the one rank that writes and prints."""
        return self.rank == 0

    def deal(self, individuals: Sequence[int], generation: int = -1) -> Iterator[int]:
        """Yield the individuals that this rank evaluates, one after the other; each goes to exactly one rank.

        Results must not depend on which rank that is. A stop request ends the iteration. `generation`: for the message
        if a rank hangs.
        """
        for individual in individuals:
            if self.stopping():
                break
            self._note_progress(Progress(generation, individual))
            yield individual
        self._note_progress(Progress(generation))

    def balance(self, seconds: NDArray[np.float64]) -> None:
        """Let the next deal give less to slower nodes; `seconds` [P]: those of each rank for its part of the last."""

    def deal_batches(
        self, individuals: Sequence[int], workers: Sequence[int], size: int, generation: int = -1
    ) -> Iterator[Sequence[int]]:
        """Yield this rank's batches of at most `size` individuals. A stop request ends the iteration.

        workers: the ranks that evaluate; each has a fixed slice, which does not divide an antithetic pair
        """
        if self.rank in workers:
            place, pairs = workers.index(self.rank), -(-len(individuals) // 2)
            low, high = (2 * (pairs * number // len(workers)) for number in (place, place + 1))
            high = min(high, len(individuals))
            for start in range(low, high, size):
                if self.stopping():
                    break
                self._note_progress(Progress(generation, individuals[start]))
                yield individuals[start : min(start + size, high)]
        self._note_progress(Progress(generation))

    def _note_progress(self, progress: Progress | None = None) -> None:
        """Note that this rank makes progress, so that it does not count as hanging."""
        if self._heartbeat:
            self._heartbeat.progress = progress or Progress(*self._heartbeat.progress)  # a new object, even if equal

    def set_stall_limit(self, seconds: float) -> None:
        """End the job from now on if a rank makes no progress for so long; 0: never."""
        self.stop_heartbeat()
        self._heartbeat = HeartbeatThread(seconds, self._abort_stalled) if seconds > 0 else None

    def stop_heartbeat(self) -> None:
        """Let a single process compute from now on without a limit for stalls."""
        if self._heartbeat:
            self._heartbeat.stop()

    @contextmanager
    def stall_limit(self, seconds: float) -> Iterator[None]:
        """End the job if a rank makes no progress for so long in a block; 0: never."""
        self.set_stall_limit(seconds)
        try:
            yield
        finally:
            self.stop_heartbeat()

    def _abort_stalled(self, stall: Stall) -> NoReturn:
        """Name the rank that hangs, and end the job."""
        if stall.rank is None:
            time.sleep(min(0.5 * self.rank, 4.0))  # all ranks detect it: the lowest one reports it and ends the others
            problem = "all ranks wait for each other: none has made any progress"
        else:
            problem = f"{self._names([stall.rank])} has made no progress"
        say_on_stderr(
            f"ees-mpi: {problem} for {stall.seconds / 60:.3g} minutes (run.stall_minutes); last seen "
            f"{stall.progress}. The job ends. {self.advice}\n"
        )
        self.abort(1)

    @property
    def advice(self) -> str:
        """The last sentence of a message that the job ends."""
        safe = "All committed generations are safe: run the same command with --resume, or `ees-mpi resume`"
        return safe if self.resumable else "Run the same command again"

    def recover(self) -> str:
        """Reconnect the ranks that are left after a `RanksLost`; return the names of the lost ones."""
        raise RuntimeError("a single process has no ranks to lose")

    def stopping(self) -> bool:
        """Return True if this rank knows that any rank was asked to stop; this is cheap."""
        if self.stop_signal is None and self.is_root and time.monotonic() > self.deadline:
            self.stop_signal = "the time limit"
        return self.stop_signal is not None

    def shares(self, count: int) -> list[range]:
        """Split `count` fixed blocks into one contiguous range per rank."""
        cuts = [count * rank // self.size for rank in range(self.size + 1)]
        return [range(low, high) for low, high in itertools.pairwise(cuts)]

    def allgather(self, rows: NDArray[Any], counts: Sequence[int] | None = None) -> NDArray[Any]:
        """Return the rows of all ranks, in rank order, on every rank; `counts`: the rows of each rank, if known."""
        self._note_progress()
        return rows

    def allgather_by_index(self, index: NDArray[np.int64], rows: NDArray[Any], total: int) -> NDArray[Any]:
        """Return the rows in index order on every rank: `total` of them, or fewer if a stop ended `deal`."""
        counts = self.allgather(np.array([len(index)]), [1] * self.size).tolist()
        index, rows = self.allgather(index, counts), self.allgather(rows, counts)
        order = np.argsort(index)
        whole = np.array_equal(index[order], np.arange(total))
        if not whole and (len(np.unique(index)) != len(index) or not self.any(self.stopping())):
            raise collective(LockStepError(f"expected each of {total} results once, got {len(index)}"))
        return rows[order]

    def shared_array(self, count: int, dtype: DTypeLike) -> NDArray[Any]:
        """Return an array that all ranks of this node share."""
        try:
            return np.empty(count, dtype)
        except MemoryError:
            raise LaunchError(f"the noise table of {count} numbers does not fit in memory; set noise.size") from None

    def node_barrier(self) -> None:
        """Wait for all ranks of this node; after it, this rank sees all that they wrote to shared arrays."""

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run a block on every rank; an `EesError` or `OSError` on any rank is raised on all of them."""
        mine: EesError | None = None
        try:
            yield
        except EesError as error:
            mine = error
        except OSError as error:
            mine = RunFileError(str(error))
        failed = self.allgather(np.array([mine is not None]), counts=[1] * self.size)
        if failed.any():
            raise self._agree_on_error(mine, int(failed.argmax()))

    def _agree_on_error(self, mine: EesError | None, rank: int) -> EesError:
        kinds = (kind.__name__ for kind in type(mine).__mro__ if kind.__name__ in errors.BY_NAME)
        words = f"{next(kinds, '')}\n{mine}" if mine and rank == self.rank else ""
        text = words.encode(errors="backslashreplace")  # a name of a file need not be UTF-8
        name, _, message = self.allgather(np.frombuffer(text, np.uint8)).tobytes().decode().partition("\n")
        return collective(errors.BY_NAME.get(name, EesError)(message))

    def check_same(self, digest: bytes, what: str) -> None:
        """Raise on every rank, with the names of the ranks that differ, unless all ranks give the same digest."""
        row = np.frombuffer(digest, np.uint8)[None]
        rows = self.allgather(row, counts=[1] * self.size)
        if (rows == rows[0]).all():
            return
        kinds, sizes = np.unique(rows, axis=0, return_counts=True)
        usual = kinds[sizes.argmax()]
        odd = [r for r in range(self.size) if not np.array_equal(rows[r], usual)]
        message = f"{what} is not the same on all ranks: {self._names(odd)} differ from the others"
        raise collective(LockStepError(message))

    def check_alike(self, mine: dict[str, str]) -> None:
        """Raise unless all ranks compute with the same CPU features, BLAS and versions."""
        row = np.array([[mine[key].encode()[:128] for key in machine.BITS_DEPEND_ON]], "S128")
        rows = self.allgather(row, counts=[1] * self.size)
        for key, values in zip(machine.BITS_DEPEND_ON, rows.T, strict=True):
            if len(odd := np.flatnonzero(values != values[0]).tolist()):
                here, there = (values[rank].decode(errors="replace") for rank in (0, odd[0]))
                raise collective(
                    LaunchError(
                        f"the ranks would not compute the same bits: {key} is {there!r} on {self._names(odd)}, "
                        f"but {here!r} on rank 0. Ask for nodes of one kind "
                        "(--constraint under SLURM), or set run.portable = true (slower, same bits everywhere)"
                    )
                )

    def broadcast(self, data: bytes | None) -> bytes:
        """Return the bytes of rank 0 on every rank."""
        return self.allgather(np.frombuffer(data or b"" if self.is_root else b"", np.uint8)).tobytes()

    def any(self, flag: bool) -> bool:
        """Return, on every rank, True if the flag is set on any rank."""
        return bool(self.allgather(np.array([flag]), counts=[1] * self.size).any())

    def handle_stop_signals(self) -> None:
        """Let SIGTERM, SIGUSR1 and the first Ctrl-C request a stop at the next generation boundary."""
        for number in settable(STOP_SIGNALS):
            signal.signal(number, self._note_signal)
        if EARLY:
            self.stop_signal = signal.Signals(EARLY[0]).name

    def _note_signal(self, number: int, frame: FrameType | None) -> None:
        if self.stop_signal and number == signal.SIGINT:
            raise KeyboardInterrupt  # a second Ctrl-C stops at once
        self.stop_signal = signal.Signals(number).name
        watchdog.acknowledge()

    def _names(self, ranks: Sequence[int]) -> str:
        listed = ", ".join(f"rank {self.launch_ranks[rank]} on {self.hosts[rank]}" for rank in ranks[:8])
        return listed + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")

    def take_turn(self) -> None:
        """Wait before a last message that several ranks may have: the lowest one prints it, and ends the others."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(min((2.0 if self.fault_tolerant else 0.5) * self.rank, 8.0))  # `abort` is slower under ULFM

    def fail(self, error: BaseException) -> NoReturn:
        """End the job after an unexpected error."""
        raise error

    def abort(self, code: int) -> NoReturn:
        """End the whole job at once."""
        os._exit(code)

    def release(self) -> None:
        """Free all resources after a job that was called from Python; called on all ranks together."""

    def leave(self, code: int) -> NoReturn:
        """Exit after all ranks are done."""
        sys.exit(code)
