"""Who notices what, without MPI: ranks that pass their words by hand, and a clock that is moved by hand."""

import threading
import time
from collections import deque
from typing import Any

import numpy as np
import pytest

from ees_mpi.ranks import Ranks
from ees_mpi.ranks.heartbeat import HeartbeatRing, Progress, Stall

LIMIT = 100.0


class Done:
    def __init__(self, take: Any = lambda: True):
        self.Test = take


class Wires:
    """A communicator whose messages are queues."""

    def __init__(self, rank: int, size: int, queues: dict[tuple[int, int], deque[Any]]):
        self.rank, self.size, self._queues = rank, size, queues

    def Isend(self, words: Any, to: int, tag: int) -> Done:
        self._queues.setdefault((self.rank, to), deque()).append(words.copy())
        return Done()

    def Irecv(self, words: Any, source: int, tag: int) -> Done:
        def take() -> bool:
            queue = self._queues.get((source, self.rank))
            if not queue:
                return False
            words[:] = queue.popleft()
            return True

        return Done(take)


class Ring:
    """Some ranks that watch each other."""

    def __init__(self, size: int, monkeypatch: pytest.MonkeyPatch):
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        queues: dict[tuple[int, int], deque[Any]] = {}
        self.ranks = [HeartbeatRing(Wires(rank, size, queues), LIMIT) for rank in range(size)]

    def wait(self, seconds: float, *, waiting: Any, step: float = 1.0) -> dict[int, Stall]:
        """Let some ranks wait; return what they notice in the end."""
        for _ in np.arange(0, seconds, step):
            self.now += step
            found = {rank: self.ranks[rank].check_peers() for rank in waiting}
        return {rank: stall for rank, stall in found.items() if stall}


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> Ring:
    return Ring(4, monkeypatch)


def test_a_silent_rank_is_named_by_the_one_before_it_alone_with_its_last_place(ring: Ring) -> None:
    ring.ranks[2].note_progress(Progress(5, 17))
    assert ring.wait(LIMIT - 5, waiting=[0, 1, 3]) == {}
    found = ring.wait(10, waiting=[0, 1, 3])
    assert found.keys() == {1} and found[1].rank == 2
    assert str(found[1].progress) == "at individual 17 of generation 5"


def test_ranks_that_wait_for_one_that_gets_on_do_not_complain(ring: Ring) -> None:
    for rollout in range(20):
        ring.now += 1
        ring.ranks[3].note_progress(Progress(0, rollout))
        assert ring.wait(0.9 * LIMIT, waiting=[0, 1, 2]) == {}


def test_ranks_that_all_wait_for_each_other_are_noticed(ring: Ring) -> None:
    for rank in ring.ranks:
        rank.note_progress(Progress(3))
    assert ring.wait(1.4 * LIMIT, waiting=range(4)) == {}
    found = ring.wait(0.4 * LIMIT, waiting=range(4))
    assert found and all(stall.rank is None for stall in found.values())


def test_a_job_that_was_suspended_as_a_whole_has_not_stalled(ring: Ring) -> None:
    ring.wait(20, waiting=range(4))
    ring.now += 100 * LIMIT
    assert ring.wait(20, waiting=range(4)) == {}


def test_a_limit_counts_from_when_it_is_set(ring: Ring) -> None:
    for rank in ring.ranks:
        rank.set_limit(0)
    assert ring.wait(50 * LIMIT, waiting=[0, 1, 3], step=10.0) == {}  # the program of rank 2 takes its time
    for rank in ring.ranks:
        rank.set_limit(LIMIT)
    assert ring.wait(0.9 * LIMIT, waiting=[0, 1, 3]) == {}
    assert ring.wait(0.2 * LIMIT, waiting=[0, 1, 3])[1].rank == 2


def test_two_ranks_watch_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Ring(2, monkeypatch)
    assert ring.wait(1.2 * LIMIT, waiting=[0])[0].rank == 1


def test_a_single_process_has_the_limit_for_stalls_in_every_command_that_asks_for_it() -> None:
    stalled = threading.Event()

    class Alone(Ranks):
        def _abort_stalled(self, stall: Stall) -> Any:
            stalled.set()

    ranks = Alone()
    ranks.set_stall_limit(1000.0)
    ranks.set_stall_limit(0.001)  # replaces the limit before
    assert stalled.wait(60)
    ranks.stop_heartbeat()
