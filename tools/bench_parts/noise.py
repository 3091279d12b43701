"""Filling a noise table of 2^26 floats, against one call of numpy's standard_normal for as many floats."""

import numpy as np
from bench_parts.on_ranks import Measurement, one_and_two, show_one_and_two, wall

from ees_mpi.noise import NoiseTable
from ees_mpi.ranks import Ranks

SIZE = 2**26


def worker(world: Ranks) -> Measurement:
    """Time the filling by all ranks together, and the reference on each rank."""
    target = np.zeros(SIZE, np.float32)
    generator = np.random.Generator(np.random.Philox(0))
    return {
        "noise_s": wall(world, lambda: NoiseTable(0, SIZE, world), 2),
        "normal_s": wall(world, lambda: generator.standard_normal(out=target, dtype=np.float32), 2),
    }


def noise() -> Measurement:
    """Measure on one and on two ranks."""
    return one_and_two("noise", "noise_s", "normal_s", rounds=1)


def show(r: Measurement) -> None:
    """Print the result for reading."""
    show_one_and_two(r, "noise_s", "normal_s", "standard_normal")
