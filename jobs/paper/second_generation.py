#!/usr/bin/env python3
"""How much of the lead of selected mutations is passed on when they are mutated again: the realised heritability.

    ees-mpi measure RUN.h5 --std 0.02 --count 200 --starts 20 -o M.h5
    python jobs/paper/second_generation.py M.h5 --std 0.02 --launch "mpirun -n 16" > M.json

In each direction, some of the best mutations are selected: the starts take turns, so that one selects its best, the
next one its second best, and so on. Each of the selected is written as a policy and measured like any other, from
starts that have not selected it. *Selection* is how far the selected go from the starts that selected them, *response*
how far their own mutations go on average, and the ratio of the two is what is passed on. Directions are opposite in
pairs and all parents have the same starts, so that what a start adds to all places does not count.
"""

import argparse
import json
import math
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import ees_mpi

Floats = NDArray[np.float64]
EES = [sys.executable, "-m", "ees_mpi"]
CONFIDENCE = 0.95


def selection_of(along: Floats, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return `count` individuals of each direction, and the start that selects each; both [direction, count].

    along: [individual, start, direction] how far each goes. The same starts select in opposite directions.
    """
    _, starts, directions = along.shape
    axes = directions // 2
    best = np.argsort(-along, axis=0, kind="stable")[:count]  # [place, start, direction]
    place, direction = np.arange(count), np.arange(directions)[:, None]
    start = (place + direction % axes * starts // axes) % starts  # each start has other places along another axis
    return best[place, start, direction], start


def error_of_ratio(selection: Floats, response: Floats) -> float:
    """Return the standard error of the mean response over the mean selection, of parents [direction, parent].

    This is the linearised error of a ratio; parents are the sample, direction by direction. NaN if there is one parent,
    or nothing to select.
    """
    if selection.shape[1] < 2 or not selection.mean() > 0:
        return math.nan
    rest = response - response.mean() / selection.mean() * selection
    return float(np.sqrt(rest.var(axis=1, ddof=1).mean() / rest.size) / abs(selection.mean()))


def realised(second: dict[str, list[float]]) -> dict[str, float]:
    """Return selection and response, means over opposite directions, and their ratio: the realised heritability.

    The ratio has an interval of 95 percent, except in blocks of the first measurements.
    """
    selection, response = (float(np.mean(second[name])) for name in ("selection", "response"))
    ratio = response / selection if selection > 0 else math.nan
    found = {"selection": selection, "response": response, "realised": ratio}
    if "error" in second:
        (error,), (freedom,) = second["error"], second["freedom"]
        either_side = error * float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom))
        found |= {"realised_low": ratio - either_side, "realised_high": ratio + either_side}
    return found


def second_generation(
    measured: Path, std: float, parents: int, children: int, launch: Sequence[str]
) -> dict[str, list[float]]:
    """Select from a file of `measure --starts`, and measure each of the selected; return means along each direction."""
    with ees_mpi.open_run(measured, trust=True) as run:
        row = int(np.argmin(np.abs(np.median(run["std"][:], axis=(1, 2)) - std)))
        axes, starts = run.config.task.axes, run.config.task.rollouts
        directions = np.vstack([np.eye(axes), -np.eye(axes)])
        along = run["behavior_by_start"][row][:, :, -axes:] @ directions.T
        along[run["valid"][row] == 0] = -np.inf
    selected, start = selection_of(along, parents)
    chosen = along[selected, start, np.arange(len(directions))[:, None]]
    response = np.empty_like(chosen)
    with tempfile.TemporaryDirectory() as folder:
        for direction, place in np.ndindex(*selected.shape):
            policy, born = Path(folder, "parent.npz"), Path(folder, "children.h5")
            which = ["--generation", str(row), "--individual", str(selected[direction, place])]
            call([*EES, "export", str(measured), "--policy", *which, "-o", str(policy), "--overwrite", "--trust"])
            sizes = ["--std", str(std), "--count", str(children), "--starts", str(starts)]
            call([*launch, *EES, "measure", str(policy), *sizes, "-o", str(born), "--overwrite", "--trust"])
            with ees_mpi.open_run(born, trust=True) as found:
                ends = found["behavior"][0][found["valid"][0] != 0][:, -axes:]
            response[direction, place] = (ends @ directions[direction]).mean()
            print(f"direction {direction}, parent {place}: {response[direction, place]:.3g}", file=sys.stderr)
    means = {"selection": chosen.mean(axis=1).tolist(), "response": response.mean(axis=1).tolist()}
    return {**means, "error": [error_of_ratio(chosen, response)], "freedom": [float(chosen.size - len(chosen))]}


def call(words: Sequence[str]) -> None:
    """Run a command, whose output goes to the standard error."""
    subprocess.run(words, check=True, stdout=sys.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("measured", type=Path, help="a file of ees-mpi measure --starts, of places")
    parser.add_argument("--std", type=float, required=True, help="of the row to select from, and of the new mutations")
    parser.add_argument("--parents", type=int, default=10, help="selected in each direction")
    parser.add_argument("--children", type=int, default=20, help="mutations of each parent")
    parser.add_argument("--launch", default="", help="the launcher, such as 'mpirun -n 16'")
    words = parser.parse_args()
    found = second_generation(words.measured, words.std, words.parents, words.children, shlex.split(words.launch))
    print(json.dumps({**found, **realised(found)}))
