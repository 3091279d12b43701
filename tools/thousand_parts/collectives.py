"""The gathers of a generation at the paper's sizes, one after the other: seconds until the last rank has the result."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ees_mpi.ranks import Ranks

N, D, B = 10_000, 75_272, 2
SAMPLED, WIDTH = 100, 58  # rollouts that feed the observation statistics of the ant, and their numbers
REPEATS = 9
CALLS = {"flag": 1, "digest": 1, "outcomes": 3, "observations": 2, "kernel": 1, "gradient": 1}  # gathers of each


def sizes(ranks: int) -> dict[str, int]:
    """Return the bytes that a rank receives in each."""
    outcomes = N * 8 * (1 + 4 + B) + 8 * ranks
    observations = 8 * (SAMPLED * WIDTH + ranks)
    return {
        "flag": ranks, "digest": 32 * ranks, "outcomes": outcomes,
        "observations": observations, "kernel": 8 * N, "gradient": 8 * D,
    }  # fmt: skip


def measure(world: Ranks) -> dict[str, float]:
    """Return the median seconds of each."""
    index = np.arange(world.rank, N, world.size)
    rows = np.zeros((len(index), 4 + B))
    observed = np.zeros((len(range(world.rank, SAMPLED, world.size)), WIDTH))

    def share(total: int) -> Callable[[], Any]:
        shares = [len(each) for each in world.shares(total)]
        mine = np.zeros(shares[world.rank])
        return lambda: world.allgather(mine, shares)

    actions = {
        "flag": lambda: world.any(False),
        "digest": lambda: world.check_same(bytes(32), "a digest"),
        "outcomes": lambda: world.allgather_by_index(index, rows, N),
        "observations": lambda: world.allgather(observed),
        "kernel": share(N),
        "gradient": share(D),
    }
    medians = {name: _median(world, action) for name, action in actions.items()}
    return {"ranks": world.size, "nodes": world.nodes, **medians}


def _median(world: Ranks, action: Callable[[], Any]) -> float:
    found = []
    for _ in range(REPEATS):
        world.any(False)
        begin = time.monotonic()  # all hosts are on one machine and share its clock
        action()
        end = time.monotonic()
        table = world.allgather(np.array([[begin, end]]), [1] * world.size)
        found.append(table[:, 1].max() - table[:, 0].max())
    return float(np.median(found))
