"""One generation at paper scale (N = 10,000, ant, MaxEnt) with rollouts of a few steps: time and memory of its parts.

The last lines compare the parts with whole rollouts of 1,000 steps, which are timed in the same run.
"""

import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from bench_parts.on_ranks import Measurement, on_ranks, table, wall

from ees_mpi import config as configs
from ees_mpi import machine
from ees_mpi.generation.evaluation import Evaluation
from ees_mpi.generation.packing import unpack
from ees_mpi.generation.results import metrics
from ees_mpi.generation.state import State, first_state
from ees_mpi.noise import NoiseTable
from ees_mpi.outcomes import Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.store.writer import RunWriter
from ees_mpi.training import EvolutionJob, train
from ees_mpi.update import Update

STEPS = 2
LONG = 1000
PRESETS = {"cheetah": "cheetah-maxent", "ant": "ant-maxent"}


class PrivateMemory:
    """Samples the private memory of this process in a thread: the kernel records no peak of it."""

    def __init__(self) -> None:
        self.peak = self.now()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @staticmethod
    def now() -> int:
        """Return the bytes of anonymous memory: neither shared nor mapped from files."""
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no RssAnon in /proc/self/status")

    def _run(self) -> None:
        while not self._stop.wait(0.002):
            self.peak = max(self.peak, self.now())

    def stop(self) -> int:
        """Stop sampling and return the peak."""
        self._stop.set()
        self._thread.join()
        return self.peak


def worker(world: Ranks) -> Measurement:
    """Run three generations with commits and sample the memory; then time the parts of a generation."""
    short = ["run.generations=3", f"task.steps={STEPS}", "noise.size=134217728"]
    config = configs.load(PRESETS["ant"], short)
    noise = NoiseTable(0, config.noise.size, world)
    evaluation = Evaluation(config, noise, world)  # the memory of the physics is not counted
    before = PrivateMemory.now()
    memory = PrivateMemory()
    job = EvolutionJob(config, evaluation, Update.of(config, noise), world)
    state = first_state(config)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        writer = RunWriter.create(Path(folder, "run.h5"), config, state.arrays()) if world.is_root else None
        if writer:
            writer.begin_session(0, world.size, world.nodes, machine.fingerprint())
        start = time.perf_counter()
        state = train(job, state, writer)
        whole = (time.perf_counter() - start) / 3
        if writer:
            writer.close()
    growth = memory.stop() - before
    return {
        "generation_s": whole,
        "memory_growth_mb": max(world.allgather(np.array([growth / 1e6])).tolist()),
        **_parts(job, state),
        **{f"rollout_{robot}_s": _rollout(world, preset) for robot, preset in PRESETS.items()},
    }


def _parts(job: EvolutionJob, state: State) -> Measurement:
    """Time each part of an update separately, on the outcomes of a real generation."""
    world, config = job.ranks, job.config
    record, following = job.advance(state)
    names = ("valid", "length", "fitness", "behavior")
    rows = np.column_stack([np.arange(config.population.size), *(record.arrays[name] for name in names)])
    update, population, objective = job.update, job.update.population, job.update.objective

    def fresh() -> Outcomes:  # without the values that `Outcomes` computes once
        return unpack(rows, np.zeros((0, 1)))

    drawn, outcomes = update.ask(state), fresh()
    weights = objective.weights(outcomes, {}, world)[0]
    gradient = population.gradient(weights, drawn, state.learned, update.noise, world)
    parts = {
        "draw": lambda: update.ask(state),
        "whiten": lambda: fresh().whitened,
        "weights": lambda: objective.weights(fresh(), {}, world),
        "gradient": lambda: population.gradient(weights, drawn, state.learned, update.noise, world),
        "adam": lambda: update.optimizer.step(state.learned, gradient, state.moments),
        "metrics": lambda: metrics(outcomes, config.method.bandwidth, world),
        "digest": following.digest,
    }
    return {f"{name}_s": wall(world, action, 5) for name, action in parts.items()}


def _rollout(world: Ranks, preset: str) -> float:
    """Time whole rollouts, on all ranks at the same time."""
    config = configs.load(preset)
    evaluator = config.task.open(0)
    state = first_state(config)
    statistics = state.observation_mean_std()
    taken = wall(world, lambda: evaluator.evaluate(0, state.mean[0], *statistics, False), 3)
    evaluator.close()
    return taken


def generation() -> Measurement:
    """Measure on two ranks, and compare everything that is not a rollout with the rollouts."""
    r = on_ranks("generation", 2)
    r["not_shrinking_s"] = sum(r[f"{name}_s"] for name in ("draw", "whiten", "adam", "digest", "metrics"))
    r["rest_s"] = r["generation_s"] - 10_000 / 2 * STEPS / LONG * r["rollout_ant_s"]
    r["paper_generation_s"] = 10_000 / 2 * r["rollout_cheetah_s"]
    r["rest_share"] = r["rest_s"] / (r["paper_generation_s"] + r["rest_s"])
    return r


def show(r: Measurement) -> None:
    """Print the results and their arithmetic."""
    parts = ("draw", "whiten", "weights", "gradient", "adam", "metrics", "digest")
    table([("part of an update, 2 ranks", "ms"), *((name, f"{1e3 * r[f'{name}_s']:.1f}") for name in parts)])
    print(f"does not shrink with more ranks (draw, whiten, adam, metrics, digest): {1e3 * r['not_shrinking_s']:.1f} ms")
    print(f"a generation with rollouts of {STEPS} steps, commit included: {r['generation_s']:.2f} s")
    print(f"  less the steps themselves: {r['rest_s']:.2f} s is not rollouts (this includes 10,000 resets)")
    print(f"a rollout of {LONG} steps: cheetah {r['rollout_cheetah_s']:.3f} s, ant {r['rollout_ant_s']:.3f} s")
    print(f"paper scale, 2 ranks: {r['paper_generation_s']:.0f} s of cheetah rollouts, and {r['rest_share']:.2%} more")
    print(f"private memory of a rank: at most {r['memory_growth_mb']:.0f} MB more than with its environment alone")
