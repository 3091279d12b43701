#!/usr/bin/env python3
"""Compare `trust` with Adam and others: steps from a trained mean, and training. The plan is in results/optimizers.md.

    python jobs/paper/compare_optimizers.py start|train [--folder runs/optimizers] [--seeds 0-2] [--generations 11]

start: standard ES of Gymnasium's cheetah towards +x, from older means of MaxEnt (N = 10,000), in runs/results.
train: MaxEnt and standard ES of a small cheetah, from random means.
All runs have equal rollouts (--population N: 100 by default). Complete runs in the folder are kept.
`jobs/paper/results/optimizers.md` has the verdicts.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi import load_config, train
from ees_mpi.outcomes import Arrays, Floats

MEANS = Path("runs/results")  # git archive 8fa8da2 jobs/paper/results | tar -x --strip-components=2 -C runs
sys.path.append(str(Path(__file__).parents[1] / "examples"))  # has `own_optimizer`
SMALL = {"run.fsync": False, "run.evaluate_mean_every": 0, "noise.size": 4_000_000, "task.device": "cpu"}
FROM_MEAN = {**SMALL, "task.steps": 300}
TRAINING = {**SMALL, "task.steps": 200, "task.hidden": [64, 64], "task.observation_share": 0.1}
L2 = 0.05  # of the paper
STD = 0.02
SHOWN = (0, 1, 2, 5, 10, 20)  # updates


class Fixed:
    """A step of `mutations` mutations along an average of about `memory` gradients, whatever their signal is."""

    def __init__(self, mutations: float, memory: float):
        self.mutations, self.memory = mutations, memory

    def start(self, learned: Arrays) -> Arrays:
        """Return an average of 0."""
        return {"average": np.zeros(learned["mean"].shape)}

    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays) -> tuple[Arrays, Arrays]:
        """Return the step and the next average."""
        mean = learned["mean"]
        average = moments["average"] + (gradient["mean"] - L2 * mean - moments["average"]) / self.memory
        length = self.mutations * STD * np.sqrt(mean.size) / max(np.linalg.norm(average), 1e-300)
        return {"mean": (mean + length * average).astype(np.float32)}, {"average": average}


def fixed(mutations: float, memory: float) -> dict[str, Any]:
    """Return the optimizer section of `Fixed`."""
    settings = {"mutations": mutations, "memory": memory}
    return {"name": "custom", "function": "compare_optimizers:Fixed", "settings": settings}


WAYS: dict[str, dict[str, Any]] = {
    "Adam": {"name": "adam", "l2": L2, "correct_first": True},
    "Adam, first moment not corrected": {"name": "adam", "l2": L2, "correct_first": False},
    "Adam, lr 0.003": {"name": "adam", "l2": L2, "correct_first": True, "lr": 0.003},
    "0.1 mutations along the gradient": fixed(0.1, 1),
    "0.1 mutations along an average of 10": fixed(0.1, 10),
    "trust": {"name": "custom", "function": "own_optimizer:Trust", "settings": {"std": STD, "l2": L2}},
}


def behaviors(folder: Path, name: str, preset: str, section: dict[str, Any], settings: dict[str, Any]) -> Floats:
    """Train a run, or take a complete one; return final x [generations, N]."""
    config = {**load_config(preset, settings).sections(), "optimizer": section}
    with train(config, folder / f"{name}.h5", start=trained_mean(name), resume=True) as run:
        return np.asarray(run["behavior"][:, :, -1])


def trained_mean(name: str) -> Path | None:
    """Return the trained mean of a run whose name begins with "start"."""
    seed = int(name.rpartition("seed")[2]) % 4
    return MEANS / f"mujoco-cheetah-maxent-short-seed{seed}" / "policy.npz" if name.startswith("start") else None


def compare_starts(folder: Path, seeds: list[int], common: dict[str, Any]) -> None:
    """Print mean x and mean |x| after so many updates."""
    updates = [update for update in SHOWN if update < common["run.generations"]]
    print("| optimizer | spread after the first step |", " | ".join(map(str, updates)), "|")
    print("|---" * (len(updates) + 2) + "|")
    for number, (way, section) in enumerate(WAYS.items()):
        runs = []
        for seed in seeds:
            settings = {**FROM_MEAN, **common, "run.seed": seed}
            runs.append(behaviors(folder, f"start-{number}-seed{seed}", "gymnasium-cheetah-es", section, settings))
        first = 2 if way == "trust" else 1  # trust makes no step in the first generation
        kept = [np.abs(x[first]).mean() / np.abs(x[0]).mean() for x in runs]
        cells = [f"{_mean(runs, u, np.asarray):.1f} / {_mean(runs, u, np.abs):.1f}" for u in updates]
        print(f"| {way} | {interval(kept)} |", " | ".join(cells), "|", flush=True)


def compare_training(folder: Path, seeds: list[int], common: dict[str, Any]) -> None:
    """Print the range of the left share and the mean distance over the last half, and their ratio to standard ES."""
    last = slice(common["run.generations"] // 2, None)
    print("| optimizer | objective | range of the left share | smaller side at the end | mean distance |")
    print("|---|---|---|---|---|")
    for number, (way, section) in enumerate(WAYS.items()):
        distances: dict[str, list[float]] = {}
        for objective in ("maxent", "es"):
            runs = []
            for seed in seeds:
                settings = {**TRAINING, **common, "run.seed": seed}
                name = f"train-{number}-{objective}-seed{seed}"
                runs.append(behaviors(folder, name, f"gymnasium-cheetah-{objective}", section, settings))
            left = [(x[last] < 0).mean(axis=1) for x in runs]
            ranges, sides = [np.ptp(share) for share in left], [min(share[-1], 1 - share[-1]) for share in left]
            distances[objective] = [float(np.abs(x[last]).mean()) for x in runs]
            cells = " | ".join(interval(values) for values in (ranges, sides, distances[objective]))
            print(f"| {way} | {objective} | {cells} |", flush=True)
        ratio = np.mean(distances["maxent"]) / np.mean(distances["es"])
        print(f"| {way} | ratio of mean distances | | | {ratio:.2f} |", flush=True)


def _mean(runs: list[Floats], update: int, of: Any) -> float:
    return float(np.mean([of(x[update]).mean() for x in runs]))


def interval(values: list[Any]) -> str:
    """Return the mean of some values, and their range."""
    return f"{np.mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    """Train all runs of a comparison and print its table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("comparison", choices=["start", "train"])
    parser.add_argument("--folder", type=Path, default=Path("runs/optimizers"))
    parser.add_argument("--seeds", default="0-2")
    parser.add_argument("--generations", type=int, default=11)
    parser.add_argument("--population", type=int, default=100)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    low, _, high = arguments.seeds.partition("-")
    seeds = list(range(int(low), int(high or low) + 1))
    common = {"run.generations": arguments.generations, "population.size": arguments.population}
    (compare_starts if arguments.comparison == "start" else compare_training)(arguments.folder, seeds, common)


if __name__ == "__main__":
    main()
