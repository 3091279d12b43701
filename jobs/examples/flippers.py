"""Does MaxEnt of the mean over two starts favour mutations that flip between two corners of a box?

    cd jobs/examples
    python flippers.py

The point of box.py starts somewhere in the middle room of the box. Three networks are trained for each seed: with
MaxEnt from one start, with MaxEnt of the mean over two starts, and with `repeatable` from two. Then 500
mutations of each run from 10 other starts. A pair of rollouts *flips* if it ends more than half of the box apart; a
mean of two rollouts is *nowhere* if none of all rollouts ends in its cell.
"""

import sys
import tempfile
from itertools import combinations
from pathlib import Path

import numpy as np
from box import SIDE, walk

import ees_mpi
from ees_mpi.spread import share, variances  # as `measure --starts`

TASK = {"task.function": "flippers:scattered"}
TWO = {"task.rollouts": 2, "task.starts": "common"}
ARMS = {
    "MaxEnt, 1 start": {"task.starts": "fixed"},
    "MaxEnt, 2 starts": TWO,
    "MaxEnt (1.0), 2 starts": {**TWO, "objective.bandwidth": 1.0},
    "repeatable, 2 starts": {**TWO, "objective.name": "repeatable"},
}
SEEDS, CELL, COUNT, STARTS = range(5), 0.5, 500, 10


def scattered(z, seed):
    """Return where the networks lead the point from the start that a seed says."""
    return walk(z, np.random.default_rng(seed).uniform(-1.0, 1.0, 2))


def flips(places):
    """Return the share of pairs of rollouts [mutation, start, 2] of a mutation that end far apart."""
    pairs = combinations(range(places.shape[1]), 2)
    return np.mean([np.linalg.norm(places[:, a] - places[:, b], axis=1) > SIDE / 2 for a, b in pairs])


def nowhere(places):
    """Return the share of means of two rollouts in whose cell no rollout ends."""
    cells = {tuple(cell) for cell in np.floor(places.reshape(-1, 2) / CELL).astype(int).tolist()}
    means = places[:, :2].mean(axis=1)
    return np.mean([tuple(cell) not in cells for cell in np.floor(means / CELL).astype(int).tolist()])


def preference(run):
    """Return by how many standard deviations MaxEnt's weights of flippers are above those of others, on average."""
    found = []
    for ends, mean in zip(run["behavior_by_start"][:], run["behavior"][:], strict=True):
        weights = ees_mpi.maxent_weights(mean)
        flip = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1) > SIDE / 2
        if 5 <= flip.sum() <= len(flip) - 5:
            found.append((weights[flip].mean() - weights[~flip].mean()) / weights.std())
    return np.mean(found)


if __name__ == "__main__":
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for seed in SEEDS:
            for name, settings in ARMS.items():
                settings = {**TASK, **settings, "run.generations": 61}
                run = ees_mpi.train("box.toml", Path(folder, "run.h5"), seed=seed, settings=settings, overwrite=True)
                of_measure = {"std": 0.1, "count": COUNT, "starts": STARTS, "out": Path(folder, "measured.h5")}
                measured = ees_mpi.measure(run, **of_measure, overwrite=True, trust=True)
                places = measured["behavior_by_start"][0]
                row = [flips(places), nowhere(places), share(*variances(places))]
                found.setdefault(name, []).append([*row, preference(run) if "task.rollouts" in settings else np.nan])
                run.close()
                measured.close()
                print(seed, name, np.round(found[name][-1], 3), file=sys.stderr)
    print(f"{'':24}{'flips':>24}{'nowhere':>24}{'share':>24}{'preference':>24}")
    for name, rows in found.items():
        ranges = [f"{np.mean(c):.2f} ({min(c):.2f} to {max(c):.2f})" for c in np.transpose(rows)]
        print(f"{name:24}" + "".join(f"{text:>24}" for text in ranges))
