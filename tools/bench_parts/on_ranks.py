"""Run a measurement on several ranks: mpirun starts them, every rank measures, rank 0 prints JSON."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpirun
import numpy as np

from ees_mpi import ranks
from ees_mpi.ranks import Ranks

BENCH = Path(__file__).parents[1] / "bench.py"
Measurement = dict[str, float]


def on_ranks(name: str, count: int) -> Measurement:
    """Run `bench.py NAME --worker` on some ranks."""
    words = [mpirun.MPIRUN, "-n", str(count), sys.executable, str(BENCH), name, "--worker"]
    done = subprocess.run(words, capture_output=True, text=True, env=mpirun.environment())
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout))


def work(measure: Callable[[Ranks], Measurement]) -> None:
    """Measure on all ranks together, and print the measurement of rank 0."""

    def job(world: Ranks) -> None:
        measured = measure(world)
        if world.is_root:
            print(json.dumps(measured))

    ranks.run(job)


def wall(world: Ranks, action: Callable[[], Any], repeat: int = 3) -> float:
    """Return the median time of an action that all ranks do together."""
    times = []
    for _ in range(repeat):
        world.any(False)  # all ranks start together
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def table(rows: list[tuple[str, ...]]) -> None:
    """Print the rows in columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
