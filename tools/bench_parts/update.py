"""The two large parts of an update at paper scale, on one rank and on two.

gradient  10,000 individuals with 74,246 parameters, against a memcpy of the 1.48 GB of noise that it reads
maxent    weights of 10,000 behaviours in 2-D (two kernel passes), against 1e8 values of numpy's exp in cache
"""

import numpy as np
from bench_parts.on_ranks import Measurement, on_ranks, table, wall

from ees_mpi.noise import NoiseTable, stream
from ees_mpi.objectives.maxent import MaxEnt
from ees_mpi.outcomes import Outcomes
from ees_mpi.populations.normal import Normal
from ees_mpi.ranks import Ranks

N, D, TABLE = 10_000, 74_246, 2**27
IN_CACHE = 8192
PARTS = {"gradient": "memcpy", "maxent": "exp"}


def worker(world: Ranks) -> Measurement:
    """Time the parts on all ranks together, and the references on each rank."""
    return {f"{name}_s": seconds for name, seconds in {**_gradient(world), **_maxent(world)}.items()}


def _gradient(world: Ranks) -> Measurement:
    population, noise = Normal(size=N, std=0.02), NoiseTable(0, TABLE, world)
    drawn = population.draw(stream(0, "draw"), noise, D)
    weights, learned = stream(1, "weights").normal(size=N), {"mean": np.zeros((1, D), np.float32)}
    target = np.empty(D * N // 2 // 8, np.float32)
    source = noise.row(0, target.size)

    def copy() -> None:
        for _ in range(8):
            np.copyto(target, source)

    copy()
    taken = wall(world, lambda: population.gradient(weights, drawn, learned, noise, world), 5)
    return {"gradient": taken, "memcpy": wall(world, copy, 5)}


def _maxent(world: Ranks) -> Measurement:
    behavior, valid = np.random.default_rng(0).normal(size=(N, 2)), np.ones(N, np.bool_)
    x = -4 * np.random.default_rng(1).random(IN_CACHE, np.float32)
    y = np.empty_like(x)

    def weigh() -> None:
        outcomes = Outcomes(behavior, behavior[:, 0], valid.astype(np.int64), valid, np.zeros((0, 1)))
        MaxEnt().weights(outcomes, {}, world)

    def exponentials() -> None:
        for _ in range(N * N // IN_CACHE):
            np.exp(x, out=y)

    weigh()
    return {"maxent": wall(world, weigh, 5), "exp": wall(world, exponentials, 5)}


def update() -> Measurement:
    """Measure on one and on two ranks."""
    one, two = on_ranks("update", 1), on_ranks("update", 2)
    found = dict(one)
    for part, reference in PARTS.items():
        found[f"{part}_ratio"] = one[f"{part}_s"] / one[f"{reference}_s"]
        found[f"{part}_two_ranks_s"] = two[f"{part}_s"]
    return found


def show(r: Measurement) -> None:
    """Print the result for reading."""
    lines = [("part", "one rank", "reference", "ratio", "two ranks", "speed-up")]
    for part, reference in PARTS.items():
        one, two = r[f"{part}_s"], r[f"{part}_two_ranks_s"]
        against = f"{reference} {r[f'{reference}_s']:.3f} s"
        lines.append((part, f"{one:.3f} s", against, f"{r[f'{part}_ratio']:.2f}", f"{two:.3f} s", f"{one / two:.2f}"))
    table(lines)
