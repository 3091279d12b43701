"""The gradient of 10,000 individuals with 74,246 parameters, against a memcpy of the 1.48 GB of noise it reads."""

import numpy as np
from bench_parts.on_ranks import Measurement, one_and_two, show_one_and_two, wall

from ees_mpi.noise import NoiseTable, stream
from ees_mpi.populations.normal import Normal
from ees_mpi.ranks import Ranks

N, D, TABLE = 10_000, 74_246, 2**27


def worker(world: Ranks) -> Measurement:
    """Time the gradient on all ranks together, and the memcpy on each rank."""
    population, noise = Normal(size=N, std=0.02), NoiseTable(0, TABLE, world)
    drawn = population.draw(stream(0, "draw"), noise, D)
    weights, learned = stream(1, "weights").normal(size=N), {"mean": np.zeros((1, D), np.float32)}
    target = np.empty(D * N // 2 // 8, np.float32)
    source = noise.row(0, target.size)

    def copy() -> None:
        for _ in range(8):
            np.copyto(target, source)

    copy()
    return {
        "gradient_s": wall(world, lambda: population.gradient(weights, drawn, learned, noise, world), 5),
        "memcpy_s": wall(world, copy, 5),
    }


def gradient() -> Measurement:
    """Measure on one and on two ranks."""
    return one_and_two("gradient", "gradient_s", "memcpy_s")


def show(r: Measurement) -> None:
    """Print the result for reading."""
    show_one_and_two(r, "gradient_s", "memcpy_s", "memcpy of 1.48 GB")
