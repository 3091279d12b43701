"""Making a noise table of 2^26 floats, against one call of numpy's standard_normal for as many."""

import numpy as np
from benchmarks.parallel import Measurement, on_ranks, table, wall

from ees_mpi.noise import NoiseTable
from ees_mpi.ranks import Ranks

SIZE = 2**26


def worker(world: Ranks) -> Measurement:
    """Time the filling by these ranks, and the yardstick on each by itself."""
    target = np.zeros(SIZE, np.float32)
    generator = np.random.Generator(np.random.Philox(0))
    return {
        "noise_s": wall(world, lambda: NoiseTable(0, SIZE, world), 2),
        "normal_s": wall(world, lambda: generator.standard_normal(out=target, dtype=np.float32), 2),
    }


def noise() -> Measurement:
    """Measure on one and on two ranks."""
    one, two = on_ranks("noise", 1, rounds=1), on_ranks("noise", 2, rounds=1)
    return {
        **one,
        "ratio": one["noise_s"] / one["normal_s"],
        "two_ranks_s": two["noise_s"],
        "speedup_two_ranks": one["noise_s"] / two["noise_s"],
    }


def show(r: Measurement) -> None:
    """Print the result for reading."""
    table(
        [
            ("noise table", "standard_normal", "ratio", "two ranks", "speed-up"),
            (
                f"{r['noise_s']:.3f} s",
                f"{r['normal_s']:.3f} s",
                f"{r['ratio']:.2f}",
                f"{r['two_ranks_s']:.3f} s",
                f"{r['speedup_two_ranks']:.2f}",
            ),
        ]
    )
