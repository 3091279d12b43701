"""heritability.csv: a row per measurement (`measure --starts`) of a trained mean; and the planned tests of its arms.

`results.py collect` and `pack` keep the raw places of a measurement in a block, and `update` computes its row. Rows of
older measurements, whose raw places are lost, stay as they are. plans.toml has the plan of the experiment.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from blocks import KeptRun, read_block, read_by_start
from endpoints import Row, as_csv, engine_of, read
from places import measured, twice
from rules import Interval, ratio
from second_generation import realised

from ees_mpi.analysis.numbers.statistics import Group, compare

NUMBERS = Path(__file__).parent / "results" / "heritability.csv"
ARMS = {"fixed": 1, "fresh": 1, "mean": 2, "repeatable": 2, "repeatable-common": 2}  # starts of an individual
TWO_STARTS, SEEDS = ("mean", "repeatable", "repeatable-common"), 6  # of the planned tests
ARM = re.compile(rf"(cheetah|ant)-({'|'.join(ARMS)})-seed(\d+)")  # the mean of a run of the experiment
BULLET = re.compile(r"ant-maxent-authors-([a-z]+)-mujoco-seed(\d+)-bullet-starts")  # measured there, not trained
Engines = dict[tuple[str, int], tuple[dict[str, float], dict[str, float]]]  # by arm and seed: Bullet, replica
Arms = dict[tuple[str, bool, str], dict[int, Row]]  # by robot, whether it is in Bullet, and arm; then by seed


def write(results: Path) -> Path:
    """Write heritability.csv: rows of all measurements that the blocks keep, and the older ones."""
    path = results / NUMBERS.name
    rows = {(row["mean"], row["engine"]): row for row in (read(path) if path.exists() else [])}
    for block in sorted(results.glob("*.h5")):
        if raw := read_by_start(block):
            runs = {run.name: run for run in read_block(block)}
            found = (row_of(name, places, runs) for name, places in raw.items())
            rows |= {(row["mean"], row["engine"]): row for row in found}
    columns = dict.fromkeys(key for row in rows.values() for key in row)
    path.write_text(as_csv([row for _, row in sorted(rows.items())], columns), encoding="utf-8")
    return path


def row_of(name: str, raw: Any, runs: Mapping[str, KeptRun]) -> Row:
    """Return the row of a measurement; `runs` has its run of `measure` or, without `realised`, the training."""
    mean = name.removesuffix("-starts").removesuffix("-bullet")
    run = runs.get(name) or runs[mean]
    start = json.loads(run.about["started_from"] or "{}")
    numbers = {"std": run.config["population"]["std"], **measured(raw)}
    if second := start.get("second_generation"):
        numbers |= realised(second[0])
    digest = start["state_sha256"] if name in runs else run.about["state_sha256"]
    facts = {"mean": mean, "engine": engine_of(run.config["task"]), "digest": digest}
    return facts | {key: f"{value:.6g}" for key, value in numbers.items()}


def raw_places(results: Path) -> dict[str, Any]:
    """Read the raw places of all measurements that the blocks keep, by name."""
    return {name: places for path in sorted(results.glob("*.h5")) for name, places in read_by_start(path).items()}


def in_both_engines(raw: Mapping[str, Any]) -> Engines:
    """Return the numbers of ants that were trained in the replica, by arm and seed: in Bullet and in the replica.

    Both are of the same mutations from the same starts; `alike` is the correlation of their mean places.
    """
    found = {}
    for name, there in raw.items():
        if match := BULLET.fullmatch(name):
            here = raw[name.replace("-bullet-", "-")][: len(there), : there.shape[1]]
            x, y = (np.asarray(places, np.float64).mean(axis=1) for places in (there, here))
            alike = np.corrcoef((x - x.mean(axis=0)).ravel(), (y - y.mean(axis=0)).ravel())[0, 1]
            found[match[1], int(match[2])] = {**measured(there), "alike": float(alike)}, measured(here)
    return dict(sorted(found.items()))


def with_other_rounding(raw: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return how the variance of means splits that were measured again, with another rounding (`NAME-again`), by mean.

    In the replica other kernels round differently; in Bullet each weight was moved to the next number.
    """
    pairs = {name: name.replace("-again-starts", "-starts") for name in sorted(raw) if name.endswith("-again-starts")}
    return {
        first.removesuffix("-starts"): twice(raw[first], raw[again]) for again, first in pairs.items() if first in raw
    }


def arms(rows: list[Row]) -> Arms:
    """Return the rows of the arms of the experiment."""
    found: Arms = {}
    for row in rows:
        if match := ARM.fullmatch(row["mean"]):
            robot, arm, seed = match.groups()
            found.setdefault((robot, row["engine"] == "bullet", arm), {})[int(seed)] = row
    return found


def planned(found: Arms, bullet: bool) -> dict[str, list[tuple[Interval, float]]]:
    """Return the planned tests of the cheetah: for each arm with two starts, heritable variance and share over `fixed`.

    Each has the ratio and the corrected p.
    """
    fixed, *others = (found["cheetah", bullet, arm].values() for arm in ("fixed", *TWO_STARTS))
    tested: dict[str, list[tuple[Interval, float]]] = {arm: [] for arm in TWO_STARTS}
    for name in ("heritable", "share"):
        base, *groups = (Group("", np.array([float(row[name]) for row in rows])) for rows in (fixed, *others))
        tests = compare([(each, base) for each in groups])
        for arm, each, test in zip(TWO_STARTS, groups, tests, strict=True):
            tested[arm].append((ratio(each.values, base.values), test.holm))
    return tested
