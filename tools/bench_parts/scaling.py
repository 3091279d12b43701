"""Cheetah generations on 1, 2, ... ranks: the same work in total (strong), and the same work per rank (weak)."""

import os

from bench_parts.on_ranks import Measurement, on_ranks, table, wall

from ees_mpi import config as configs
from ees_mpi.ranks import Ranks
from ees_mpi.state import first_state
from ees_mpi.training import EvolutionJob

N, STEPS = 48, 200


def generation(world: Ranks, size: int) -> float:
    """Return the seconds of a generation of `size` individuals."""
    settings = [f"population.size={size}", f"task.steps={STEPS}", "noise.size=4194304", "run.evaluate_mean_every=0"]
    config = configs.load("cheetah-maxent", settings)
    job = EvolutionJob.open(config, world)
    state = first_state(config)
    job.advance(state, {})
    taken = wall(world, lambda: job.advance(state, {}), 3)
    job.close()
    return taken


def worker(world: Ranks) -> Measurement:
    """Time both kinds of scaling on these ranks."""
    return {"strong_s": generation(world, N), "weak_s": generation(world, N * world.size)}


def scaling() -> dict[str, Measurement]:
    """Measure on 1, 2, 4, ... ranks, up to the number of cores."""
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
