#!/usr/bin/env python3
"""Compare first steps from a trained mean: fresh Adam, carried moments, smaller first rates, no correction.

    python jobs/paper/gentle_start.py [--folder runs/gentle-start] [--seeds 3] [--updates 5]

Standard ES trains Gymnasium's robots towards +x with few individuals. They start from older means of MaxEnt in
runs/results (N = 10,000), which have no moments, and from a small cheetah that is trained here and has moments.
Complete runs in the folder are kept. `jobs/paper/results/rules.md` has the table.
"""

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi import open_run, train
from ees_mpi.optimizers.adam import Adam
from ees_mpi.outcomes import Arrays

MEANS = Path("runs/results")  # git archive 8fa8da2 jobs/paper/results | tar -x --strip-components=2 -C runs
RATES = {"lr": 0.01, "l2": 0.05}  # of the paper
SMALL = {"run.fsync": False, "run.evaluate_mean_every": 0, "noise.size": 4_000_000, "task.device": "cpu"}
TASKS: dict[str, dict[str, Any]] = {
    "cheetah": {**SMALL, "population.size": 60, "task.steps": 500},
    "ant": {**SMALL, "population.size": 100, "task.steps": 300},
    "small cheetah": {**SMALL, "population.size": 100, "task.steps": 200, "task.hidden": [64, 64]},
}
TRAINING = 25  # generations of MaxEnt of the small cheetah
SHOWN = (0, 1, 2, 5, 10, 20)  # updates


class Carried:
    """Adam that continues with the moments of the trained run."""

    def __init__(self, run: str):
        self.run, self.adam = run, Adam(**RATES)

    def start(self, learned: Arrays) -> Arrays:
        """Return the last moments of the trained run."""
        with open_run(self.run) as run:
            state = run.state_arrays()
        return {name: state[f"moments/{name}"] for name in self.adam.start(learned)}

    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays) -> tuple[Arrays, Arrays]:
        """Return the step of Adam."""
        return self.adam.step(learned, gradient, moments)


class Rising:
    """Fresh Adam whose learning rate rises from a tenth to its full value in ten steps."""

    def start(self, learned: Arrays) -> Arrays:
        """Return zero moments."""
        return Adam(**RATES).start(learned)

    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays) -> tuple[Arrays, Arrays]:
        """Return a step of Adam with the rate of this step."""
        share = min(1.0, (int(moments["steps"]) + 1) / 10)
        return Adam(lr=share * RATES["lr"], l2=RATES["l2"]).step(learned, gradient, moments)


def variants(trained: Path) -> dict[str, dict[str, Any]]:
    """Return the settings of each way to start."""
    found: dict[str, dict[str, Any]] = {
        "fresh Adam": {"optimizer.correct_first": True},
        "first moment not corrected": {"optimizer.correct_first": False},
        "rate rises from lr / 10 in ten steps": _own("Rising"),
        "lr / 3": {"optimizer.correct_first": True, "optimizer.lr": RATES["lr"] / 3},
    }
    if trained.suffix == ".h5":
        found["moments carried over"] = _own("Carried", run=str(trained))
    return found


def _own(name: str, **settings: Any) -> dict[str, Any]:
    return {"optimizer.name": "custom", "optimizer.function": f"gentle_start:{name}", "optimizer.settings": settings}


def trained_means(folder: Path, seeds: int) -> Iterator[tuple[str, int, Path]]:
    """Yield the task, the seed and the file of each trained mean."""
    for robot in ("cheetah", "ant"):
        for seed in range(seeds):
            path = MEANS / f"mujoco-{robot}-maxent-short-seed{seed}" / "policy.npz"
            if path.exists():
                yield robot, seed, path
    for seed in range(seeds):
        path = folder / f"small-cheetah-maxent-seed{seed}.h5"
        settings = {**TASKS["small cheetah"], "run.seed": seed, "run.generations": TRAINING}
        train("gymnasium-cheetah-maxent", path, settings=settings, resume=True).close()
        yield "small cheetah", seed, path


def main() -> None:
    """Train all runs and print a table for each task."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("runs/gentle-start"))
    parser.add_argument("--seeds", type=int, default=3, help="runs of each way to start")
    parser.add_argument("--updates", type=int, default=5)
    told = parser.parse_args()
    told.folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, list[Any]]] = {name: {} for name in TASKS}
    for task, seed, start in trained_means(told.folder, told.seeds):
        for number, (way, more) in enumerate(variants(start).items()):
            settings = {**TASKS[task], "run.seed": seed, "run.generations": told.updates + 1, **more}
            out = told.folder / f"{task.replace(' ', '-')}-{number}-seed{seed}.h5"
            with train(f"gymnasium-{task.split()[-1]}-es", out, settings=settings, start=start, resume=True) as run:
                found[task].setdefault(way, []).append(run["behavior"][:])
    for task, ways in found.items():
        updates = [update for update in SHOWN if update <= told.updates]
        print(f"\n{task}, mean x / mean distance after so many updates, means over the seeds:\n")
        print("| start | runs |", " | ".join(map(str, updates)), "|\n|" + "---|" * (len(updates) + 2))
        for way, runs in ways.items():
            cells = (f"{_mean_x(runs, update):.1f} / {_distance(runs, update):.1f}" for update in updates)
            print(f"| {way} | {len(runs)} |", " | ".join(cells), "|")


def _mean_x(runs: list[Any], update: int) -> float:
    return math.fsum(places[update, :, 0].mean() for places in runs) / len(runs)


def _distance(runs: list[Any], update: int) -> float:
    return math.fsum(np.linalg.norm(places[update], axis=1).mean() for places in runs) / len(runs)


if __name__ == "__main__":
    main()
