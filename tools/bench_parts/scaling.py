"""Generations on 1, 2, ... ranks: the same work in total (strong) and per rank (weak), in Bullet and in MuJoCo.

tools/bench.py scaling --json >scaling.json       jobs/paper/results.py draws it
"""

import os

from bench_parts.on_ranks import Measurement, on_ranks, table, wall

from ees_mpi import config as configs
from ees_mpi.generation.state import first_state
from ees_mpi.ranks import Ranks
from ees_mpi.training import EvolutionJob

TOTAL, EACH, STEPS = 128, 32, 200  # individuals in all (strong), individuals per rank (weak), steps of a rollout
PRESETS = {"bullet": "cheetah-maxent", "mujoco": "mujoco-cheetah-maxent"}
SETTINGS = (f"task.steps={STEPS}", "noise.size=4194304", "run.evaluate_mean_every=0")


def generation(world: Ranks, engine: str, size: int) -> float:
    """Return the seconds of a generation of `size` individuals."""
    cpu = ("task.device=cpu",) if engine == "mujoco" else ()
    config = configs.load(PRESETS[engine], [f"population.size={size}", *SETTINGS, *cpu])
    job = EvolutionJob.open(config, world)
    state = first_state(config)
    job.advance(state, {})
    taken = wall(world, lambda: job.advance(state, {}), 3)
    job.close()
    return taken


def worker(world: Ranks) -> Measurement:
    """Time both kinds of scaling on these ranks."""
    found: Measurement = {"strong_steps": TOTAL * STEPS, "weak_steps": EACH * world.size * STEPS}
    for engine in PRESETS:
        found[f"{engine}_strong_s"] = generation(world, engine, TOTAL)
        found[f"{engine}_weak_s"] = generation(world, engine, EACH * world.size)
    return found


def scaling() -> dict[str, Measurement]:
    """Measure on 1, 2, 4, ... ranks, up to the number of cores."""
    counts = sorted({1, 2, *(2**k for k in range(10) if 2**k <= (os.cpu_count() or 1))})
    results = {str(count): on_ranks("scaling", count, rounds=1) for count in counts}
    for result in results.values():
        for engine in PRESETS:
            result[f"{engine}_speedup"] = results["1"][f"{engine}_strong_s"] / result[f"{engine}_strong_s"]
            result[f"{engine}_efficiency"] = results["1"][f"{engine}_weak_s"] / result[f"{engine}_weak_s"]
    return results


def show(results: dict[str, Measurement]) -> None:
    """Print the result for reading."""
    rows = [("engine", "ranks", "same work", "speed-up", "work per rank", "efficiency")]
    for engine in PRESETS:
        for count, r in results.items():
            strong = (f"{r[f'{engine}_strong_s']:.2f} s", f"{r[f'{engine}_speedup']:.2f}")
            weak = (f"{r[f'{engine}_weak_s']:.2f} s", f"{r[f'{engine}_efficiency']:.2f}")
            rows.append((engine, count, *strong, *weak))
    table(rows)
