"""Ranks that check each other: they report a rank that hangs, and a rank that died."""

import math
import os
import signal
import time
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from ees_mpi.ranks.heartbeat import HeartbeatRing, Progress, Stall, cancel
from ees_mpi.ranks.launcher import say_from_launcher
from ees_mpi.ranks.serial import Ranks
from ees_mpi.ranks.shared_memory import NodeProgress
from ees_mpi.ranks.signals import settable
from ees_mpi.terminal import say_on_stderr

STOP_TAG = 2  # of the message that asks the other ranks to stop
STALL_SECONDS = 1800.0  # without progress, until the config sets another limit
ENDING_SECONDS = 2.0  # between SIGCONT and SIGTERM of a launcher that ends the job
RECONNECT_SECONDS = 60.0  # to reconnect after a rank died, once the slowest rank is there


class SupervisedRanks(Ranks):
    """Several ranks. Each one notes its progress, and checks its successor while it waits."""

    _comm: Any
    _node_progress: NodeProgress
    _node_ranks: list[int]  # the ranks of this node
    _node_pids: list[int]  # their process ids
    _stop_messages: list[Any]  # that this rank has sent

    def __init__(self) -> None:
        super().__init__()
        self._heartbeats: HeartbeatRing | None = None
        self._stop_request: Any = None  # receives the message that another rank was asked to stop
        self._stall_seconds = STALL_SECONDS
        self._continued = -math.inf  # the time of the last SIGCONT

    def set_stall_limit(self, seconds: float) -> None:
        """End the job from now on if a rank makes no progress for so long while others wait for it; 0: never."""
        self._stall_seconds = seconds
        if self.size == 1:
            super().set_stall_limit(seconds)
        if self._heartbeats:
            self._heartbeats.set_limit(seconds)

    def _abort_connecting(self) -> None:
        say_on_stderr(
            f"ees-mpi: not all ranks connected within {self._stall_seconds / 60:.3g} minutes, at the start or after "
            f"some were lost; the job ends. {self.advice}\n"
        )
        self.abort(1)

    def _note_progress(self, progress: Progress | None = None) -> None:
        super()._note_progress(progress)
        if progress:
            self._node_progress.set(self.node_rank, progress)
        if self._heartbeats and (stall := self._heartbeats.note_progress(progress)):
            self._abort_stalled(stall)

    def _check_peers(self) -> None:
        if self._heartbeats and (stall := self._heartbeats.check_peers()):
            self._abort_stalled(stall)

    def _abort_stalled(self, stall: Stall) -> NoReturn:
        if stall.rank in self._node_ranks:  # shared memory is newer than the last heartbeat
            stall = stall._replace(progress=self._node_progress.get(self._node_ranks.index(stall.rank)))
        super()._abort_stalled(stall)

    def handle_stop_signals(self) -> None:
        """Let signals request a stop; a launcher that ends the job sends SIGCONT, SIGTERM, and very soon SIGKILL."""
        super().handle_stop_signals()
        for number in settable([signal.SIGCONT]):
            signal.signal(number, self._note_continue)

    def _note_continue(self, number: int, frame: FrameType | None) -> None:
        self._continued = time.monotonic()

    def _note_signal(self, number: int, frame: FrameType | None) -> None:
        """Note a stop signal; if the launcher sends it because a rank died, report that rank."""
        super()._note_signal(number, frame)
        if number != signal.SIGTERM:
            return
        processes = zip(self._node_ranks, self._node_pids, strict=True)
        dead = [rank for rank, pid in processes if not os.path.exists(f"/proc/{pid}")]
        alive = [rank for rank in self._node_ranks if rank not in dead]
        if dead and alive[0] == self.rank and not self.fault_tolerant:  # only one rank of the node reports
            say_on_stderr(f"ees-mpi: {self._names(dead)} died, and this MPI ends the job. {self.advice}\n")
        elif not dead and self.is_root and time.monotonic() - self._continued < ENDING_SECONDS:
            say_from_launcher(f"ees-mpi: the launcher ends the job. {self.advice}\n")

    def _drain(self) -> None:
        """Receive every message that is on the way: a later communicator may get the number of this one.

        A message for an earlier communicator would confuse MPI, and all ranks would wait for ever.
        """
        ring, self._heartbeats = self._heartbeats, None  # no heartbeat is sent from now on
        mine = np.array([[ring.sent if ring else 0, bool(self._stop_messages)]])
        sent, stops = self.allgather(mine, [1] * self.size).T.tolist()
        if ring:
            ring.drain(sent)
        expected = sum(stops) - stops[self.rank]
        if expected:
            self._stop_request.Wait()
        else:
            cancel(self._stop_request)
        for _ in range(expected - 1):
            self._comm.Recv(np.zeros(1), tag=STOP_TAG)
        for message in self._stop_messages:
            message.Wait()
        self.any(False)  # all ranks have received everything
