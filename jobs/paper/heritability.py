"""heritability.csv: a row per measurement (`measure --starts`) of a trained mean; and the arms of its plans.

`results.py pack` keeps the raw places of a measurement in a block, and `update` computes its row. Rows of
older measurements, whose raw places are lost, stay as they are. `realised` is what mutations of selected mutations keep
of the lead of these: response over selection. Some means were measured again (`NAME-again`) with other kernels, which
round differently. The columns `twice_...` have how the variance of their places splits.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from blocks import KeptRun, read_block, read_by_start
from endpoints import as_csv, engine_of
from groups import Row, read
from places import measured, twice
from plan import ARMS, arm_run

NUMBERS = "heritability.csv"
Arms = dict[str, list[Row]]  # by robot and arm, such as ant.four


def write(results: Path) -> Path:
    """Write heritability.csv: rows of all measurements that the blocks keep, and the older ones."""
    path = results / NUMBERS
    rows = {(row["mean"], row["engine"]): row for row in (read(path) if path.exists() else [])}
    raw: dict[str, Any] = {}
    for block in sorted(results.glob("*.h5")):
        places, runs = read_by_start(block), {run.name: run for run in read_block(block)}
        raw |= places
        for name, each in places.items():
            row = row_of(name, each, runs)
            rows[row["mean"], row["engine"]] = row
    for name, first in sorted(raw.items()):
        again = raw.get(name.replace("-starts", "-again-starts"))
        if again is not None:
            parts = {f"twice_{part}": f"{value:.6g}" for part, value in twice(first, again).items()}
            rows[mean_of(name), "mujoco"] |= parts
    columns = dict.fromkeys(key for row in rows.values() for key in row)
    path.write_text(as_csv([row for _, row in sorted(rows.items())], columns), encoding="utf-8")
    return path


def mean_of(measurement: str) -> str:
    """Return the name of the trained mean that was measured."""
    return measurement.removesuffix("-starts").removesuffix("-bullet")


def row_of(name: str, raw: Any, runs: Mapping[str, KeptRun]) -> Row:
    """Return the row of a measurement; `runs` has its run of `measure` or, without `realised`, the training."""
    run = runs.get(name) or runs[mean_of(name)]
    start = json.loads(run.about["started_from"] or "{}")
    numbers = {"std": run.config["population"]["std"], **measured(raw)}
    if second := start.get("second_generation"):
        numbers["realised"] = sum(second[0]["response"]) / sum(second[0]["selection"])
    digest = start["state_sha256"] if name in runs else run.about["state_sha256"]
    facts = {"mean": mean_of(name), "engine": engine_of(run.config["task"]), "digest": digest}
    return facts | {key: f"{value:.6g}" for key, value in numbers.items()}


def arms_of(rows: Iterable[Row], measured: Iterable[Row], engine: str = "mujoco") -> Arms:
    """Return what is known of the networks of each arm, by seed: endpoints of their training, and the measurement."""
    trained = {row["digest"]: row for row in rows if row["kind"] == "training"}
    means = {row["mean"]: row for row in measured if row["engine"] == engine}
    found: Arms = {}
    for robot, arms in ARMS.items():
        for key, arm in arms.items():
            networks = found[f"{robot}.{key}"] = []
            for seed in arm["seeds"]:
                row = means.get(f"{arm_run(robot, key)}-mujoco-seed{seed}")
                if row:
                    networks.append({**trained.get(row["digest"], {}), **row, "seed": f"{seed}"})
    return found


def by_words(arms: Arms, robot: str, keys: Sequence[str] = ()) -> Arms:
    """Return the networks of a robot by the words that tables have for their arm; `keys`: these arms only."""
    found: Arms = {}
    for key in keys or ARMS[robot]:
        found.setdefault(ARMS[robot][key]["shown"], []).extend(arms[f"{robot}.{key}"])
    return found
