"""Cheetah generations on 1, 2, ... ranks of this machine: the same work (strong), and as much for each rank (weak)."""

import os

from benchmarks.parallel import Measurement, on_ranks, table, wall

from ees_mpi import config as configs
from ees_mpi.noise import NoiseTable
from ees_mpi.ranks import Ranks
from ees_mpi.state import first_state
from ees_mpi.training import Job, advance

N, STEPS = 48, 200


def generation(world: Ranks, size: int) -> float:
    """Time a generation with some number of individuals."""
    settings = [f"population.size={size}", f"task.steps={STEPS}", "noise.size=4194304", "run.evaluate_mean_every=0"]
    config = configs.load("cheetah-maxent", settings)
    job = Job(config, config.task.open(0), NoiseTable(0, config.noise.size, world), world)
    state = first_state(config)
    advance(job, state)
    taken = wall(world, lambda: advance(job, state), 3)
    job.evaluator.close()
    return taken


def worker(world: Ranks) -> Measurement:
    """Time both kinds on these ranks."""
    return {"strong_s": generation(world, N), "weak_s": generation(world, N * world.size)}


def scaling() -> dict[str, Measurement]:
    """Measure on one rank, two, and so on up to the number of cores."""
    counts = sorted({1, 2, *(2**k for k in range(10) if 2**k <= (os.cpu_count() or 1))})
    results = {str(count): on_ranks("scaling", count) for count in counts}
    for result in results.values():
        result["strong_speedup"] = results["1"]["strong_s"] / result["strong_s"]
        result["weak_efficiency"] = results["1"]["weak_s"] / result["weak_s"]
    return results


def show(results: dict[str, Measurement]) -> None:
    """Print the result for reading."""
    rows = [("ranks", "same work", "speed-up", "work per rank", "efficiency")]
    for count, r in results.items():
        strong = (f"{r['strong_s']:.2f} s", f"{r['strong_speedup']:.2f}")
        rows.append((count, *strong, f"{r['weak_s']:.2f} s", f"{r['weak_efficiency']:.2f}"))
    table(rows)
