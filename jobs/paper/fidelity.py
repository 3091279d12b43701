#!/usr/bin/env python3
"""Measure the effect of each difference between the paper and the authors' released program on small tasks.

    jobs/paper/fidelity.py [--folder runs/fidelity] [--seeds 3] [--parallel 2] [--set KEY=VALUE ...]

Every run has the paper's settings, with one difference switched on. All variants of one seed have the same first
generation, unless the draws or the noise table differ. Complete runs in the folder are kept. `ees_mpi/docs/fidelity.md`
explains the differences, jobs/paper/results/rules.md has the tables.
"""

import argparse
import math
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ees_mpi import open_run
from ees_mpi.objectives import OBJECTIVES
from ees_mpi.outcomes import Floats, Outcomes, Singles
from ees_mpi.ranks import Ranks
from ees_mpi.store.reader import Run

RANKS, KERNEL, L2 = "objective.normalization=ranks", f"objective.bandwidth={1 / math.sqrt(2)}", "optimizer.l2=0.005"
INDEPENDENT, ENDS, TABLE = "population.antithetic=false", "task.terminate=environment", "noise.size=10000000"
PAPER = "the paper's settings"
SMALL = ("run.fsync=false", "run.evaluate_mean_every=0")
CHEETAH = ("task.steps=150", "task.hidden=[64,64]", "population.size=100", "run.generations=12", "noise.size=4000000")
ANT = ("task.steps=300", "task.hidden=[64,64]", "population.size=40", "run.generations=6", "noise.size=4000000")


def genome(run: Run) -> float:
    """Return the mean after the last generation."""
    return float(run.state_arrays()["mean"][0, 0])


def final_std(run: Run) -> float:
    """Return the standard deviation of the final position in the last generation: the root of the total variance."""
    return float(np.sqrt(np.nanvar(run["behavior"][-1], axis=0).sum()))


def length(run: Run) -> float:
    """Return the mean number of steps of a rollout in the last generation."""
    return float(run["length"][-1].mean())


def norm(run: Run) -> float:
    """Return the norm of the first gradient."""
    return float(run["gradient_norm"][0])


@dataclass(frozen=True)
class Task:
    """A small task: its preset, its variants, and the numbers that are shown of each run."""

    preset: str
    settings: Sequence[str]
    variants: Mapping[str, Sequence[str]]
    shown: Mapping[str, Callable[[Run], float]]


WALK = {"sd of final position": final_std, "mean steps": length, "first gradient": norm}
TASKS = (
    Task(
        "interference-maxvar",
        ("run.generations=600",),
        {
            PAPER: (),
            "ranks": (RANKS,),
            "ranks, 16 times the learning rate": (RANKS, "optimizer.lr=0.48"),
            "independent draws": (INDEPENDENT,),
        },
        {"x (best: 7.854)": genome, "first gradient": norm},
    ),
    Task(
        "interference-maxent",
        ("run.generations=600",),
        {
            PAPER: (),
            "ranks": (RANKS,),
            "ranks, 7 times the learning rate": (RANKS, "optimizer.lr=0.7"),
            "kernel exp(-d^2)": (KERNEL,),
            "independent draws": (INDEPENDENT,),
        },
        {"x (best: 7.854)": genome, "first gradient": norm},
    ),
    Task(
        "gymnasium-cheetah-maxent-laptop",
        CHEETAH,
        {
            PAPER: (),
            "ranks": (RANKS,),
            "kernel exp(-d^2)": (KERNEL,),
            "L2 0.005": (L2,),
            "noise table of 10,000,000": (TABLE,),
            "ranks, kernel, L2": (RANKS, KERNEL, L2),
        },
        WALK,
    ),
    Task("ant-maxent-laptop", ANT, {PAPER: (), "ends on a fall": (ENDS,)}, WALK),
)


def slug(variant: str) -> str:
    """Return the name of a variant as a part of a file's name."""
    return "".join(letter if letter.isalnum() else "-" for letter in variant)


def train(job: tuple[Path, str, Sequence[str], int]) -> None:
    """Train one run, unless its file is complete."""
    path, preset, settings, seed = job
    words = [Path(sys.executable).with_name("ees-mpi"), "train", preset, "--seed", seed, "--out", path, "--resume"]
    words += [word for setting in settings for word in ("--set", setting)]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)


def weights(run: Run, of: Run) -> Floats:
    """Return the weights that the objective of one run gives to the first generation of another."""
    valid = of["valid"][0].astype(bool)
    first = Outcomes(of["behavior"][0], of["fitness"][0], of["length"][0], valid, np.zeros((0, 1)))
    objective = OBJECTIVES.build(run.config.sections()["objective"])
    found: Floats = objective.weights(first, {}, Ranks())[0]
    return found


def agreement(run: Run, paper: Run) -> float:
    """Return the correlation of the weights of a variant and of the paper on the same first generation."""
    return float(np.corrcoef(weights(run, paper), weights(paper, paper))[0, 1])


def direction(run: Run, paper: Run) -> float:
    """Return the cosine between the ways that both means have gone since the first generation."""

    def way(each: Run) -> Singles:
        gone: Singles = each.state_arrays()["mean"][0] - each["mean"][0, 0]
        return gone

    one, other = way(run), way(paper)
    return float(one @ other / np.sqrt((one @ one) * (other @ other)))


def rows(task: Task, files: dict[tuple[str, int], Path]) -> Iterable[list[str]]:
    """Yield the rows of a table: for each variant the mean over the seeds, and the range."""
    seeds = sorted({seed for _, seed in files})
    compared = {"weights: correlation with the paper's": agreement}
    if not task.preset.startswith("interference"):  # one parameter has no direction
        compared["way of the mean: cosine with the paper's"] = direction
    yield ["variant", *task.shown, *compared]
    for variant in task.variants:
        runs = [(open_run(files[variant, seed]), open_run(files[PAPER, seed])) for seed in seeds]
        columns = [[number(run) for run, _ in runs] for number in task.shown.values()]
        columns += [[both(*pair) for pair in runs] for both in compared.values()]
        yield [variant, *(f"{np.mean(each):.3g} ({min(each):.3g} to {max(each):.3g})" for each in columns)]
        for pair in runs:
            for run in pair:
                run.close()


def main() -> None:
    """Train all runs and print one table per task."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("runs/fidelity"))
    parser.add_argument("--seeds", type=int, default=3, help="runs of each variant")
    parser.add_argument("--parallel", type=int, default=2, help="runs at the same time")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="changes every run")
    told = parser.parse_args()
    told.folder.mkdir(parents=True, exist_ok=True)
    for task in TASKS:
        files = {
            (variant, seed): told.folder / f"{task.preset}-{slug(variant)}-{seed}.h5"
            for variant in task.variants
            for seed in range(told.seeds)
        }
        jobs = [
            (path, task.preset, (*SMALL, *task.settings, *told.set, *task.variants[variant]), seed)
            for (variant, seed), path in files.items()
        ]
        with ThreadPoolExecutor(told.parallel) as pool:
            list(pool.map(train, jobs))
        print(f"\n{task.preset}, {', '.join((*task.settings, *told.set))}, seeds 0 to {told.seeds - 1}:\n")
        for number, row in enumerate(rows(task, files)):
            print("|", " | ".join(row), "|")
            if number == 0:
                print("|" + "---|" * len(row))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
