"""Ranks that keep an eye on each other: what hangs is named, who died is told."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any, NoReturn

from ees_mpi.ranks.heartbeat import Place, Stall, Watch
from ees_mpi.ranks.serial import Ranks
from ees_mpi.ranks.shared_memory import Board
from ees_mpi.terminal import say_on_stderr

SETTLING = 60.0  # seconds in which ranks find together again once the slowest is there
PATIENCE = 1800.0  # seconds without progress, as long as no other limit is known


class WatchedRanks(Ranks):
    """Several ranks, each of which notes where it is, and looks at the next one while it waits."""

    _comm: Any
    _board: Board
    _mates: list[int]  # the ranks of this node
    _pids: list[int]  # their processes

    def __init__(self) -> None:
        super().__init__()
        self._watch: Watch | None = None
        self._limit = PATIENCE

    def watch(self, limit: float) -> None:
        """From now on, end the job if a rank that others wait for makes no progress for `limit` seconds; 0: never."""
        self._limit = limit
        if self._watch:
            self._watch.set_limit(limit)

    @contextmanager
    def watching(self, limit: float) -> Iterator[None]:
        """End the job if any rank, the only one included, makes no progress for `limit` seconds in a block."""
        self.watch(limit)
        with super().watching(limit) if self.size == 1 else nullcontext():
            yield

    def _start_watch(self) -> None:
        self._watch = Watch(self._comm, self._limit) if self.size > 1 else None

    def _give_up(self) -> None:
        say_on_stderr(
            f"ees-mpi: the ranks did not find together within {self._limit / 60:.3g} minutes, at the start or after "
            "some were lost; the job ends. All committed generations are safe, and resume will go on\n"
        )
        self.abort(1)

    def _get_on(self, place: Place | None = None) -> None:
        super()._get_on(place)
        if place:
            self._board.put(self.node_rank, place)
        if self._watch and (stall := self._watch.get_on(place)):
            self._stalled(stall)

    def _look_around(self) -> None:
        if self._watch and (stall := self._watch.look()):
            self._stalled(stall)

    def _stalled(self, stall: Stall) -> NoReturn:
        if stall.rank in self._mates:  # it may have got on a little since it was heard of
            stall = stall._replace(place=self._board.place(self._mates.index(stall.rank)))
        super()._stalled(stall)

    def _note_signal(self, number: int, frame: FrameType | None) -> None:
        """Note a stop, as any process does; tell whose death is behind it, where the launcher ends the job for that."""
        super()._note_signal(number, frame)
        if number != signal.SIGTERM or self.survives:
            return
        processes = zip(self._mates, self._pids, strict=True)
        gone = [rank for rank, pid in processes if not os.path.exists(f"/proc/{pid}")]
        left = [rank for rank in self._mates if rank not in gone]
        if gone and left[0] == self.rank:  # one of the node speaks
            say_on_stderr(
                f"ees-mpi: {self._names(gone)} died, and this MPI ends the job. All committed generations are safe: "
                "run the same command with --resume, or `ees-mpi resume`\n"
            )
