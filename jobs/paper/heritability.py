"""heritability.csv: a row per measurement (`measure --starts`) of a trained mean.

`results.py pack` keeps the raw places of a measurement in a block, and `update` computes its row. Rows of
older measurements, whose raw places are lost, stay as they are.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blocks import KeptRun, read_block, read_by_start
from endpoints import Row, as_csv, engine_of, read
from places import measured, twice
from second_generation import realised

NUMBERS = Path(__file__).parent / "results" / "heritability.csv"
BULLET = re.compile(r"ant-maxent-authors-([a-z]+)-mujoco-seed\d+-bullet-starts")  # measured there, not trained


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


def shares_in_bullet(raw: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the heritable shares of ants that were trained in the replica and measured in Bullet, by arm."""
    found: dict[str, list[float]] = {}
    for name, places in raw.items():
        if match := BULLET.fullmatch(name):
            found.setdefault(match[1], []).append(measured(places)["heritable_share"])
    return found


def with_other_rounding(raw: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return how the variance of means splits that were measured again, with another rounding (`NAME-again`), by mean.

    In the replica other kernels round differently; in Bullet each weight was moved to the next number.
    """
    pairs = {name: name.replace("-again-starts", "-starts") for name in sorted(raw) if name.endswith("-again-starts")}
    return {
        first.removesuffix("-starts"): twice(raw[first], raw[again]) for again, first in pairs.items() if first in raw
    }
