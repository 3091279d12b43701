#!/usr/bin/env python3
"""Print the commands of the experiment on heritability (docs/heritability.md), and the table of its measurements.

    python jobs/paper/heritability_plan.py cheetah            trainings of all arms, seeds 0 to 2, and measurements
    python jobs/paper/heritability_plan.py ant 3 6            the same of the ant, seeds 3 to 5
    python jobs/paper/heritability_plan.py means              measurements of all kept means of the paper's robots; it
                                                              writes those that blocks keep as RUN.npz

Each line of a list writes one file: `python jobs/paper/heritability_plan.py cheetah >list`, then run_list.py. Then
`results.py collect` and `pack` keep the raw places of a measurement in a block, and `update` computes its row of
heritability.csv. Rows of older measurements, whose raw places are lost, stay as they are.

The second part was planned after seeds 0 to 2 of the cheetah and before its seeds 3 to 5. `fresh`, below `fixed` in all
three, is not run again. Each arm with two starts is tested against `fixed`: Mann-Whitney, two-sided, all six seeds,
Holm's correction over the three arms; first the heritable variance, then its share. The ant: `fixed`, `mean` and
`repeatable`, seeds 0 and 1, without a test.

Means that left the repository: 964786a:jobs/paper/results/released-a.h5 (cheetahs), 4a26add:...released-d.h5 (ants).
Of four cheetahs of seed 0 (all arms but `repeatable-common`) only the measurements are kept.
"""

import csv
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from blocks import KeptRun, read_block, read_by_start
from endpoints import Row, lines, read
from intervals import Interval, ratio
from places import measured

from ees_mpi.analysis.numbers.heritability import realised
from ees_mpi.analysis.numbers.statistics import Group, compare
from ees_mpi.commands.shelf import trained_means
from ees_mpi.errors import EesError

HERE = Path(__file__).parent
NUMBERS = HERE / "results" / "heritability.csv"
GENERATIONS, ROLLOUTS = 60, 10_000
ARMS = {  # objective, starts of an individual, whose starts they are
    "fixed": ("maxvar", 1, "fixed"),
    "fresh": ("maxvar", 1, "common"),
    "mean": ("maxvar", 2, "own"),
    "repeatable": ("repeatable", 2, "own"),
    "repeatable-common": ("repeatable", 2, "common"),
}
TWO_STARTS, SEEDS = ("mean", "repeatable", "repeatable-common"), 6  # of the planned tests
ARM = re.compile(rf"(cheetah|ant)-({'|'.join(ARMS)})-seed(\d+)")  # the mean of a run of the experiment


def training(robot: str, arm: str, seed: int) -> str:
    """Return the command of one run: equal rollouts in all arms."""
    objective, rollouts, starts = ARMS[arm]
    whiten = "--set objective.normalization=whiten " if objective == "maxvar" else ""
    return (
        f"ees-mpi train {robot}-maxvar-authors --set task.engine=mujoco --set objective.name={objective} {whiten}"
        f"--set run.generations={GENERATIONS} --set population.size={ROLLOUTS // rollouts} "
        f"--set task.rollouts={rollouts} --set task.starts={starts} --seed {seed} --out {robot}-{arm}-seed{seed}.h5"
    )


def measuring(policy: str, name: str, more: str = "") -> str:
    """Return the command that measures a mean on 20 unseen starts."""
    words = "--std 0.02 --count 200 --starts 20"
    return f"ees-mpi measure {policy} {more}{words} --label {name} --out {name}-starts.h5"


def experiment(robot: str, seeds: Sequence[int]) -> list[str]:
    """Return all commands of a robot, seed by seed."""
    lines = []
    for seed in seeds:
        lines += [training(robot, arm, seed) for arm in ARMS]
        lines += [measuring(f"{robot}-{arm}-seed{seed}.h5", f"{robot}-{arm}-seed{seed}") for arm in ARMS]
    return lines


def means() -> list[str]:
    """Return the commands for the kept means: those of the shelf, and those of the blocks, which are written here."""
    lines = [measuring(f"shelf:{name}", name) for name in trained_means() if name.startswith(("ant", "cheetah"))]
    for run in (run for path in sorted(HERE.glob("results/*.h5")) for run in read_block(path) if run.policy):
        task = f"--task {run.name.split('-')[0]}-es-authors --set task.engine=mujoco " if "maml" in run.name else ""
        np.savez_compressed(f"{run.name}.npz", **run.policy)
        lines.append(measuring(f"{run.name}.npz", run.name, task))
    return lines


def write(results: Path) -> Path:
    """Write heritability.csv: rows of all measurements that the blocks keep, and the older ones."""
    path = results / NUMBERS.name
    rows = {(row["mean"], row["engine"]): row for row in (read(path) if path.exists() else [])}
    for row in rows.values():  # before the raw places were kept
        parts = [float(row[name]) for name in ("heritable", "interaction")]
        row["consistency"] = row.get("consistency") or f"{parts[0] / sum(parts):.6g}"
    for block in sorted(results.glob("*.h5")):
        if raw := read_by_start(block):
            runs = {run.name: run for run in read_block(block)}
            found = (row_of(name, places, runs) for name, places in raw.items())
            rows |= {(row["mean"], row["engine"]): row for row in found}
    columns = list(dict.fromkeys(key for row in rows.values() for key in row))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for _, row in sorted(rows.items()))
    return path


def row_of(name: str, raw: Any, runs: Mapping[str, KeptRun]) -> Row:
    """Return the row of a measurement; `runs` has its run of `measure` or, without `realised`, the training."""
    mean = name.removesuffix("-starts")
    run = runs.get(name) or runs[mean]
    start = json.loads(run.about["started_from"] or "{}")
    numbers = {"std": run.config["population"]["std"], **measured(raw)}
    if second := start.get("second_generation"):
        numbers |= realised(second[0])
    digest = start["state_sha256"] if name in runs else run.about["state_sha256"]
    facts = {"mean": mean, "engine": run.config["task"].get("engine", "bullet"), "digest": digest}
    return facts | {key: f"{value:.6g}" for key, value in numbers.items()}


def kept() -> list[Row]:
    """Return the rows of heritability.csv."""
    return read(NUMBERS) if NUMBERS.exists() else []


def measured_arms() -> dict[tuple[str, bool, str], dict[int, Row]]:
    """Return the rows of the arms: by robot, whether it is in Bullet, and arm; then by seed."""
    found: dict[tuple[str, bool, str], dict[int, Row]] = {}
    for row in kept():
        if match := ARM.fullmatch(row["mean"]):
            robot, arm, seed = match.groups()
            found.setdefault((robot, row["engine"] == "bullet", arm), {})[int(seed)] = row
    return found


def arms() -> str:
    """Return the arms of the experiment as a table, with a number for each seed."""
    found, cells = measured_arms(), []
    for robot, bullet, arm in sorted(found, key=lambda key: (*key[:2], list(ARMS).index(key[2]))):
        seeds = found[robot, bullet, arm]
        rows = [seeds[seed] for seed in sorted(seeds)]
        ways = [[100 * float(row[way]) for way in ("left", "right", "quarter") if row[way]] for row in rows]
        sides = ", ".join(" / ".join(f"{share:.0f}" for share in each) for each in ways)
        shown = [_each(rows, "heritable"), _each(rows, "share", 2), _each(rows, "consistency", 2)]
        shown.append(_each(rows, "interaction"))
        shown += [_each(rows, "realised", 2), _each(rows, "distance"), sides, _each(rows, "best_elsewhere")]
        cells.append((f"{robot}, {arm}{', in Bullet' * bullet}", *shown))
    where = "left / right (ant: commonest quarter), %"
    head = ("heritable", "share", "consistency", "interaction", "realised", "distance", where, "best elsewhere")
    return lines(("arm, seeds in order", *head), cells)


def planned(bullet: bool) -> dict[str, list[tuple[Interval, float]]]:
    """Return the planned tests of the cheetah: for each arm with two starts, heritable variance and share over `fixed`.

    Each has the ratio and the corrected p. It is empty before all six seeds of all arms are there.
    """
    found = measured_arms()
    fixed, *arms = (found.get(("cheetah", bullet, arm), {}).values() for arm in ("fixed", *TWO_STARTS))
    tested: dict[str, list[tuple[Interval, float]]] = {}
    if min(map(len, (fixed, *arms))) < SEEDS:
        return tested
    for name in ("heritable", "share"):
        base, *others = (Group("", np.array([float(row[name]) for row in rows])) for rows in (fixed, *arms))
        for arm, other, test in zip(TWO_STARTS, others, compare([(each, base) for each in others]), strict=True):
            tested.setdefault(arm, []).append((ratio(other.values, base.values), test.holm))
    return tested


def tests() -> str:
    """Return the planned tests as a table, on both engines."""
    cells = [
        (f"{arm}{', in Bullet' * bullet}", *(text for over, p in each for text in (str(over), f"{p:.2g}")))
        for bullet in (False, True)
        for arm, each in planned(bullet).items()
    ]
    head = ("heritable variance over that of `fixed` (90 % interval)", "p", "share over that of `fixed`", "p")
    return lines((f"arm, {SEEDS} seeds", *head), cells)


def _each(rows: Sequence[Row], name: str, digits: int = 0) -> str:
    return ", ".join(f"{float(row[name]):.{digits}f}" for row in rows)


def main(words: Sequence[str]) -> int:
    """Print a list of commands."""
    match list(words):
        case [("cheetah" | "ant") as robot, *limits] if len(limits) in (0, 2):
            made = experiment(robot, range(*map(int, limits or ("0", "3"))))
        case ["means"]:
            made = means()
        case _:
            sys.exit("heritability_plan.py: expected cheetah, ant (and seeds: from, to) or means")
    print(*made, sep="\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (EesError, OSError) as error:
        sys.exit(f"heritability_plan.py: {error}")
