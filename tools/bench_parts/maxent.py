"""Weights of MaxEnt for 10,000 behaviours in 2-D (two kernel passes), against 1e8 values of numpy's exp in cache."""

import time

import numpy as np
from bench_parts.on_ranks import Measurement, one_and_two, show_one_and_two, wall

from ees_mpi.objectives.maxent import MaxEnt
from ees_mpi.outcomes import Outcomes
from ees_mpi.ranks import Ranks

N = 10_000
IN_CACHE = 8192


def worker(world: Ranks) -> Measurement:
    """Time the weights on all ranks together, and the exp on each rank."""
    behavior = np.random.default_rng(0).normal(size=(N, 2))
    valid = np.ones(N, np.bool_)
    x = -4 * np.random.default_rng(1).random(IN_CACHE, np.float32)
    y = np.empty_like(x)

    def weigh() -> None:
        outcomes = Outcomes(behavior, behavior[:, 0], valid.astype(np.int64), valid, np.zeros((0, 1)))
        MaxEnt().weights(outcomes, {}, world)

    def exponentials() -> None:
        for _ in range(N * N // IN_CACHE):
            np.exp(x, out=y)

    weigh()
    start = time.perf_counter()
    exponentials()
    first = time.perf_counter() - start
    return {"maxent_s": wall(world, weigh, 5), "exp_s": min(first, wall(world, exponentials, 5))}


def maxent() -> Measurement:
    """Measure on one and on two ranks."""
    return one_and_two("maxent", "maxent_s", "exp_s")


def show(r: Measurement) -> None:
    """Print the result for reading."""
    show_one_and_two(r, "maxent_s", "exp_s", "exp over 1e8 entries")
