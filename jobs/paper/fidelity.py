#!/usr/bin/env python3
"""Compare small runs with one of the paper's settings and the same seed: the tables of jobs/paper/results/rules.md.

    ees-mpi sweep interference-maxent --set run.generations=600 --set objective.normalization=whiten,ranks | bash
    python jobs/paper/fidelity.py interference-maxent-normalization-{whiten,ranks}-seed0.h5
    python jobs/paper/fidelity.py weights      how alike MaxVar and MaxEnt are on the offspring of the second plan

The first file has the paper's settings. Runs of one seed have the same first generation, unless the draws or the noise
table differ. `ees_mpi/docs/fidelity.md` explains the differences.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from blocks import read_block
from endpoints import lines

from ees_mpi import open_run
from ees_mpi.outcomes import Floats, Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.store.reader import Run
from ees_mpi.strategy.objectives import OBJECTIVES

HERE = Path(__file__).parent


def weights(run: Run, of: Run) -> Floats:
    """Return the weights that the objective of one run gives to the first generation of another."""
    valid = of["valid"][0].astype(bool)
    first = Outcomes(of["behavior"][0], of["fitness"][0], of["length"][0], valid, np.zeros((0, 1)))
    found: Floats = OBJECTIVES.build(run.config.sections()["objective"]).weights(first, {}, Ranks())[0]
    return found


def numbers(run: Run, paper: Run) -> dict[str, float]:
    """Return what a run did, and how its weights and the way of its mean agree with those of the paper's settings."""
    one, other = (each.state_arrays()["mean"][0] - each["mean"][0, 0] for each in (run, paper))
    return {
        "last mean, first parameter": float(run.state_arrays()["mean"][0, 0]),
        "sd of final position": float(np.sqrt(np.nanvar(run["behavior"][-1], axis=0).sum())),
        "mean steps": float(run["length"][-1].mean()),
        "first gradient": float(run["gradient_norm"][0]),
        "weights: correlation": float(np.corrcoef(weights(run, paper), weights(paper, paper))[0, 1]),
        "way of the mean: cosine": float(one @ other / np.sqrt((one @ one) * (other @ other))),
    }


def table(files: Sequence[str]) -> str:
    """Return the table of all runs."""
    cells = []
    with open_run(files[0]) as paper:
        for file in files:
            with open_run(file) as run:
                found = numbers(run, paper)
            cells.append((file, *(f"{value:.3g}" for value in found.values())))
    return lines(("run", *found), cells)


def weights_alike() -> list[tuple[str, int, float, float, float]]:
    """Return how the weights of MaxVar and MaxEnt correlate on the last offspring of MaxEnt's runs, released rules.

    For each run: robot, seed, and the correlation with ranks, with whitening, and with ranks and a kernel of 0.1.
    """
    found = []
    kept = [run for path in sorted(HERE.glob("results/released-[abd].h5")) for run in read_block(path)]
    for run in (run for run in kept if "-maxent-" in run.name and run.generations > 1):
        n = len(run.last)
        last = Outcomes(run.last, np.zeros(n), np.zeros(n, np.int64), np.ones(n, bool), np.zeros((0, 1)))
        row = []
        for way, width in (("ranks", run.config["objective"]["bandwidth"]), ("whiten", 1.0), ("ranks", 0.1)):
            sections = [{"name": "maxvar"}, {"name": "maxent", "bandwidth": width}]
            both = [OBJECTIVES.build(each | {"normalization": way}).weights(last, {}, Ranks())[0] for each in sections]
            row.append(float(np.corrcoef(*both)[0, 1]))
        found.append((run.config["task"]["name"], run.config["run"]["seed"], *row))
    return found


def alike() -> str:
    """Return the table of these correlations."""
    cells = [(f"{robot}, {seed}", *(f"{value:.4f}" for value in each)) for robot, seed, *each in weights_alike()]
    return lines(("last offspring of MaxEnt, seed", "ranks", "whitening", "ranks, kernel 0.1"), cells)


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    print(alike() if sys.argv[1:] == ["weights"] else table(sys.argv[1:]), end="")
