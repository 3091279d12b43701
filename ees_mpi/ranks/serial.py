"""A single process, and the methods that ranks have with and without MPI."""

import hashlib
import math
import os
import pickle
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ees_mpi import errors, machine, memory
from ees_mpi.errors import EesError, LaunchError, LockStepError, RunFileError, collective
from ees_mpi.ranks import process

T = TypeVar("T")
RENEW_SECONDS = 1.0  # a rank that makes progress sets its time limit again at most this often: it takes 0.1 to 0.4 ms


class Ranks:
    """A single process: every allgather is the identity."""

    rank = 0
    size = 1
    node_rank = 0
    node_size = 1
    nodes = 1
    library = "none"  # the MPI

    def __init__(self, limited: bool = False) -> None:
        """Note the host; `limited`: a stall ends this process. A program that calls ees_mpi is never ended."""
        self.hosts = [socket.gethostname()]
        self.stopped_by: str | None = None
        self.deadline = math.inf  # of time.monotonic(), when this rank stops the run as a signal would
        self.run_file: Path | None = None  # which `resume` can continue after an error, if it is there
        self.limited, self._limit, self._renewed = limited, 0.0, -math.inf
        self._stops_when_asked = False

    @property
    def is_root(self) -> bool:
        """True on the one rank that writes and prints."""
        return self.rank == 0

    def hand_out(self, individuals: Sequence[int]) -> Iterator[int]:
        """Yield the individuals that this rank evaluates, one after the other; each goes to exactly one rank.

        Results must not depend on which rank that is. A stop request ends the iteration.
        """
        for individual in individuals:
            if self.stopping():
                break
            self._renew_limit()
            yield individual
        self._renew_limit()

    def hand_out_batches(
        self, individuals: Sequence[int], workers: Sequence[int], size: int
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
                self._renew_limit()
                yield individuals[start : min(start + size, high)]
        self._renew_limit()

    def set_stall_limit(self, seconds: float) -> None:
        """End the job from now on if a rank makes no progress for so long; 0: never."""
        self._limit = seconds
        if self.limited:
            process.END["seconds"] = seconds
        self._renew_limit(at_once=True)

    def _renew_limit(self, at_once: bool = False) -> None:
        """Set the time limit of this rank again, because it makes progress."""
        now = time.monotonic()
        if self.limited and (at_once or (self._limit and now - self._renewed > min(RENEW_SECONDS, self._limit / 4))):
            process.arm(self._limit and self._limit + process.turn_of(self.rank))
            self._renewed = now

    @property
    def advice(self) -> str:
        """The last sentence of a message that the job ends."""
        safe = "All committed generations are safe: run the same command with --resume, or `ees-mpi resume`"
        return safe if self.run_file and self.run_file.exists() else "Run the same command again"

    def stopping(self) -> bool:
        """Return True if this rank was asked to stop, by a signal or by its time limit; this is cheap."""
        if self.stopped_by is None and process.NOTED and self._stops_when_asked:
            self.stopped_by = signal.Signals(process.NOTED[0]).name
        if self.stopped_by is None and time.monotonic() > self.deadline:
            self.stopped_by = "the time limit"
        return self.stopped_by is not None

    def cuts(self, count: int, block: int = 1) -> NDArray[np.int64]:
        """Return where the shares [P + 1] of `count` things begin and end; all but the last end with a whole block."""
        blocks = -(-count // block)
        return np.minimum(np.arange(self.size + 1) * blocks // self.size * block, count)

    def in_blocks(self, count: int, size: int, compute: Callable[[slice], NDArray[Any]]) -> NDArray[Any]:
        """Return numbers [count] on every rank, in blocks of `size`; each rank computes some of the blocks.

        The blocks are the same for any number of ranks, and so are the bits.
        """
        cuts = self.cuts(count, size)
        start, stop = cuts[self.rank : self.rank + 2].tolist()
        mine = [compute(slice(low, min(low + size, stop))) for low in range(start, stop, size)]
        return self.allgather(np.concatenate([*mine, np.empty(0)]), np.diff(cuts))

    def allgather(self, rows: NDArray[Any], counts: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """Return the rows of all ranks, in rank order, on every rank; `counts`: the rows of each rank, if known."""
        self._renew_limit()
        return rows

    def each(self, value: Any) -> NDArray[Any]:
        """Return the values of all ranks, of which each gives one: a number, or an array of the same shape."""
        self._renew_limit()
        return np.asarray(value)[None]

    def maximum(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return, on every rank, the largest of each number over all ranks."""
        self._renew_limit()
        return values

    def allgather_by_index(self, index: NDArray[np.int64], rows: NDArray[Any], total: int) -> NDArray[Any]:
        """Return the rows in index order on every rank: `total` of them, or fewer if a stop ended `hand_out`."""
        counts = self.each(len(index))
        index, rows = self.allgather(index, counts), self.allgather(rows, counts)
        order = np.argsort(index)
        whole = np.array_equal(index[order], np.arange(total))
        if not whole and (len(np.unique(index)) != len(index) or not self.any(self.stopping())):
            raise collective(LockStepError(f"expected each of {total} results once, got {len(index)}"))
        return rows[order]

    def shared_array(self, count: int, dtype: DTypeLike, beside: int = 0) -> NDArray[Any]:
        """Return an array that all ranks of this node share; `beside`: bytes that each of them needs besides."""
        memory.check(count * np.dtype(dtype).itemsize, 1, beside, self.hosts[self.rank], shared=False)
        return np.empty(count, dtype)

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
            mine = RunFileError(errors.words_of(error))
        lowest = self.size - int(self.maximum(np.array([self.size - self.rank if mine else 0]))[0])
        if lowest < self.size:
            raise self._agree_on_error(mine, lowest) from None  # its sentence says it all

    def _agree_on_error(self, mine: EesError | None, rank: int) -> EesError:
        kinds = (kind.__name__ for kind in type(mine).__mro__ if kind.__name__ in errors.BY_NAME)
        words = f"{next(kinds, '')}\n{mine}" if mine and rank == self.rank else ""
        text = words.encode(errors="backslashreplace")  # a name of a file need not be UTF-8
        name, _, message = self.allgather(np.frombuffer(text, np.uint8)).tobytes().decode().partition("\n")
        return collective(errors.BY_NAME.get(name, EesError)(message))

    def _same(self, digest: bytes) -> bool:
        """Return, on every rank, whether all have the same digest."""
        mine = np.frombuffer(digest, np.uint8)
        largest, smallest = self.maximum(np.array([mine, 255 - mine]))  # the smallest is subtracted from 255
        return bool((largest == 255 - smallest).all())

    def check_same(self, data: bytes, what: str) -> None:
        """Raise on every rank, with the names of the ranks that differ, unless all ranks give the same bytes."""
        digest = hashlib.sha256(data).digest()
        if self._same(digest):
            return
        rows = self.each(np.frombuffer(digest, np.uint8))
        _, which, sizes = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
        odd = np.flatnonzero(which.ravel() != sizes.argmax()).tolist()
        message = f"{what} is not the same on all ranks: {self._names(odd)}, unlike the others"
        raise collective(LockStepError(message))

    def check_alike(self, mine: dict[str, str]) -> None:
        """Raise unless all ranks compute with the same CPU features, BLAS and versions."""
        texts = [mine[key] for key in machine.BITS_DEPEND_ON]
        if self._same(hashlib.sha256(repr(texts).encode()).digest()):
            return
        rows = self.each(np.array([text.encode()[:256] for text in texts], "S256"))
        for key, values in zip(machine.BITS_DEPEND_ON, rows.T, strict=True):
            if len(odd := np.flatnonzero(values != values[0]).tolist()):
                here, there = (values[rank].decode(errors="replace") for rank in (0, odd[0]))
                raise collective(
                    LaunchError(
                        f"the ranks would not compute the same bits: {key} is {there!r} on {self._names(odd)}, "
                        f"but {here!r} on rank 0. {machine.cure(key)}"
                    )
                )

    def broadcast(self, data: bytes | None) -> bytes:
        """Return the bytes of rank 0 on every rank."""
        return data or b""

    def from_root(self, read: Callable[[], T] | None) -> T:
        """Call `read` on rank 0, which has one, and return its result on every rank.

        A config keeps its marks: rank 0 has decided for all ranks what may run.
        """
        data = None
        with self.together():
            if read and self.is_root:
                data = pickle.dumps(read())
        received: T = pickle.loads(self.broadcast(data))  # noqa: S301  (of rank 0)
        return received

    def any(self, flag: bool) -> bool:
        """Return, on every rank, True if the flag is set on any rank."""
        return bool(self.maximum(np.array([flag], np.uint8))[0])

    def stop_when_asked(self) -> None:
        """Let SIGTERM, SIGUSR1 and the first Ctrl-C request a stop; a second Ctrl-C raises a KeyboardInterrupt."""
        process.note_stops()
        self._stops_when_asked = True

    def _names(self, ranks: Sequence[int]) -> str:
        listed = ", ".join(f"rank {rank} on {self.hosts[rank]}" for rank in ranks[:8])
        return listed + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")

    def fail(self, error: BaseException) -> NoReturn:
        """End the job after an unexpected error."""
        if isinstance(error, SystemExit) and not error.code:
            raise RuntimeError("code of the user called exit()") from error  # code 0 would look like success
        raise error

    def abort(self, code: int) -> NoReturn:
        """End the whole job at once."""
        os._exit(code)

    def release(self) -> None:
        """Free all resources after a job; called on all ranks together."""

    def leave(self, code: int) -> NoReturn:
        """Exit after all ranks are done."""
        process.disarm()
        sys.exit(code)


class OneOfMany(Ranks):
    """One rank of many, without the others: it times what a rank computes at a size that this machine does not have.

    It is the last of P ranks, which has the largest share; in place of what the others would send, it repeats its own.
    All that is computed is computed: the share of this rank, what every rank computes, and the counts of all ranks.
    Only messages take no time.
    """

    def __init__(self, size: int):
        super().__init__()
        self.size, self.rank = size, size - 1

    @property
    def is_root(self) -> bool:
        """True: it also does what only rank 0 does."""
        return True

    def allgather(self, rows: NDArray[Any], counts: NDArray[np.int64] | None = None) -> NDArray[Any]:
        counts = self.each(len(rows)) if counts is None else counts
        total = sum(counts.tolist())  # the list that MPI gets
        return rows[np.arange(total) % len(rows)] if len(rows) else np.zeros((total, *rows.shape[1:]), rows.dtype)

    def each(self, value: Any) -> NDArray[Any]:
        return np.repeat(np.asarray(value)[None], self.size, axis=0)
