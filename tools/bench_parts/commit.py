"""The time of a commit, against one write and fsync of the same bytes."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ees_mpi import config as configs
from ees_mpi import machine
from ees_mpi.generation.results import with_times
from ees_mpi.generation.state import first_state
from ees_mpi.ranks import Ranks
from ees_mpi.store.writer import RunWriter
from ees_mpi.training import EvolutionJob


def seconds(action: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def commit() -> dict[str, Any]:
    """Commit generations of the interference task; in turns with it, write and fsync the same number of bytes."""
    config = configs.load("interference-maxent")
    job = EvolutionJob.open(config, Ranks())
    state = first_state(config)
    record, following = job.advance(state)
    arrays = with_times(record, following.digest(), 0.0, Ranks()).arrays
    commits, writes = [], []
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = Path(folder, "run.h5")
        writer = RunWriter.create(path, config, state.arrays())
        writer.begin_session(0, 1, 1, machine.fingerprint())
        journal = Path(folder, "run.h5.journal")
        before = journal.stat().st_size
        writer.commit(0, arrays, following.arrays())
        size = journal.stat().st_size - before
        with open(Path(folder, "reference"), "wb", buffering=0) as file:
            for generation in range(1, 301):
                commits.append(seconds(lambda g=generation: writer.commit(g, arrays, following.arrays())))
                writes.append(seconds(lambda: (file.write(bytes(size)), os.fsync(file))))
        fold = seconds(writer.close)
    # Each commit is compared with its neighbour: on a busy machine, both are slow together.
    low, middle, high = statistics.quantiles([one / other for one, other in zip(commits, writes, strict=True)], n=4)
    return {
        "commit_ms": 1e3 * statistics.median(commits),
        "write_ms": 1e3 * statistics.median(writes),
        "ratio": middle,
        "ratio_quartiles": [low, high],
        "bytes": size,
        "fold_ms": 1e3 * fold,
    }


def show(r: dict[str, Any]) -> None:
    """Print the result for reading."""
    low, high = r["ratio_quartiles"]
    print(f"commit {r['commit_ms']:.3f} ms: {r['ratio']:.2f} x write and fsync of the same {r['bytes']} bytes", end=" ")
    print(f"({r['write_ms']:.3f} ms), half of the ratios between {low:.2f} and {high:.2f}")
    print(f"fold of 301 commits {r['fold_ms']:.3f} ms")
