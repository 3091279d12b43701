"""The gathers of a paper-scale generation (outcomes and gradient), against a memcpy of as many bytes."""

import numpy as np
from bench_parts.on_ranks import Measurement, on_ranks, table, wall

from ees_mpi.ranks import Ranks

N, D, B = 10_000, 75_272, 2


def worker(world: Ranks) -> Measurement:
    """Time both gathers on these ranks."""
    index = np.arange(world.rank, N, world.size)
    rows = np.zeros((len(index), 4 + B))
    share = world.shares(D)[world.rank]
    gradient = np.zeros(len(share))
    whole, target = np.zeros(N * (4 + B) + D), np.zeros(N * (4 + B) + D)
    return {
        "outcomes_s": wall(world, lambda: world.allgather_by_index(index, rows, N), 20),
        "gradient_s": wall(world, lambda: world.allgather(gradient, [len(s) for s in world.shares(D)]), 20),
        "memcpy_s": wall(world, lambda: np.copyto(target, whole), 20),
    }


def gather() -> dict[str, Measurement]:
    """Measure on one, two and four ranks."""
    return {str(count): on_ranks("gather", count, rounds=1) for count in (1, 2, 4)}


def show(results: dict[str, Measurement]) -> None:
    """Print the result for reading."""
    rows = [("ranks", "outcomes", "gradient", "memcpy of both", "ratio")]
    for count, r in results.items():
        total = r["outcomes_s"] + r["gradient_s"]
        cells = (f"{1e3 * r[key]:.2f} ms" for key in ("outcomes_s", "gradient_s", "memcpy_s"))
        rows.append((count, *cells, f"{total / r['memcpy_s']:.1f}"))
    table(rows)
