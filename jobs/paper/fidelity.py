#!/usr/bin/env python3
"""Print how alike the weights are that MaxVar and MaxEnt give to the same mutations: the table of docs/fidelity.md.

python jobs/paper/fidelity.py
"""

from pathlib import Path

import numpy as np
from blocks import read_block
from endpoints import lines

from ees_mpi.generation import Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.objectives import OBJECTIVES

HERE = Path(__file__).parent


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
    print(alike(), end="")
