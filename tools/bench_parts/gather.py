"""A gather of all ranks on 2, 16 and 48 ranks of this machine: processor time of a rank for a few bytes, and for 4 MB.

Seconds for each gather, and for each byte that a rank receives; `ees-mpi docs scaling` has them.
"""

import time

import numpy as np
from bench_parts.on_ranks import Measurement, on_ranks, table
from numpy.typing import NDArray

from ees_mpi.ranks import Ranks

RANKS = (2, 16, 48)
LARGE, TIMES = 4_000_000, 60


def worker(world: Ranks) -> Measurement:
    """Return the mean processor time of a gather over all ranks, for 8 bytes of each and for 4 MB in all."""
    few, many = (_processor(world, np.zeros(rows)) for rows in (1, LARGE // 8 // world.size))
    return {"gather_s": few, "byte_s": (many - few) / LARGE}


def _processor(world: Ranks, rows: NDArray[np.float64]) -> float:
    counts = [len(rows)] * world.size
    world.allgather(rows, counts)
    start = time.process_time()
    for _ in range(TIMES):
        world.allgather(rows, counts)
    return float(world.allgather(np.array([time.process_time() - start])).mean()) / TIMES


def gather() -> Measurement:
    """Measure on several numbers of ranks."""
    return {f"{key}_{ranks}": value for ranks in RANKS for key, value in on_ranks("gather", ranks).items()}


def show(r: Measurement) -> None:
    """Print the result for reading."""
    rows = [(f"{n}", f"{r[f'gather_s_{n}'] * 1e6:.0f} us", f"{r[f'byte_s_{n}'] * 1e9:.2f} ns") for n in RANKS]
    table([("ranks", "a gather", "a byte"), *rows])
