"""numbers.csv, a row per run with its facts and every endpoint that a page uses; heritability.csv, of measurements.

    robot            of the paper: cheetah, ant; of Gymnasium: gymnasium-cheetah, gymnasium-ant
    rules            text: the paper's text (behaviours are whitened, L2 0.05, kernel of sd 1); released: the authors'
                     program (ranks, 0.005, 0.707); other: the run's name has the difference to the released ones
    *_90_99          the mean over generations 90 to 99; *_last and *_last_10: the last generation, the last ten
    x_5              the mean x after 5 updates
    adapt            the mean distance over ten starts to the left and ten to the right; adapt_best: from the start of
                     the training; adapt_wrong: how many of the twenty end on the wrong side
    side             the smaller share of the two sides, beyond 5 units
    evenness         the smallest sum of distances of eight sectors over their mean
    directions_last  how many of 36 directions one of the 1,000 kept offspring has reached
    correlation_last that of x and y, of the kept offspring if the block has no other
    x_variance_last  the variance of x, of the kept offspring
    slower_last      the smaller of the mean distances of the two components of a mixture, of the kept offspring
    weights_ranks    how the weights correlate that MaxVar and MaxEnt give to the kept offspring of MaxEnt with the
                     released rules; _whiten: with whitening and a kernel of 1; _narrow: with ranks and one of 0.1

heritability.csv has a row per measurement (`measure --starts`) of a trained mean, from the raw places that a block
keeps. Rows of older measurements, whose raw places are lost, stay as they are. `realised` is what mutations of selected
mutations keep of the lead of these: response over selection. Some means were measured again (`NAME-again`) with other
kernels, which round differently. The columns `twice_...` have how the variance of their places splits.
"""

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from blocks import WAYS, KeptRun, read_block, read_by_start
from groups import MEASURED, NUMBERS, Row, read
from places import FAR, measured, sectors, twice

from ees_mpi import maxent_weights, maxvar_weights
from ees_mpi.arrays import Floats
from ees_mpi.spread import correlation

ALGORITHMS = {"fitness": "standard ES", "maxvar": "MaxVar", "maxent": "MaxEnt", "maml": "MAML"}
RULES = {
    "text": {"normalization": "whiten", "bandwidth": 1.0, "l2": 0.05},
    "released": {"normalization": "ranks", "bandwidth": 0.7071, "l2": 0.005},
}
WINDOW = slice(90, 100)  # generations of endpoints
MEASURES = {  # column: metric
    "distance": "distance_mean",
    "single": "distance_single",
    "near_origin": "near_origin",
    "coverage": "coverage",
    "left": "left_share",
    "side": "side",
    "evenness": "evenness",
}
LAST = ("correlation", "distance_variance", "specialization")  # metrics whose last value is an endpoint
DIRECTIONS = 36  # of 10 degrees
UPDATES = (5, 10, 20)
WEIGHTS: dict[str, tuple[Any, float]] = {  # rules, and the width of MaxEnt's kernel
    "ranks": ("ranks", 0.5**0.5),
    "whiten": ("whiten", 1.0),
    "narrow": ("ranks", 0.1),
}
SETTLED = 500  # the last generations of an interference run


def facts(run: KeptRun) -> Row:
    """Return what a run is: robot, engine, rules, algorithm, sizes, seed, start, digest."""
    task, population, about = run.config["task"], run.config["population"], run.about
    objective, optimizer = run.config.get("objective", {}), run.config.get("optimizer", {})
    start, trained = json.loads(about["started_from"] or "{}"), about["kind"] == "run"
    method = run.config.get("method") or ("" if trained else start.get("method"))
    algorithm = ALGORITHMS["maml" if method == "maml" else objective.get("name", "fitness")]
    before = re.search(r"-part(\d+)-", start.get("path") or "") if trained else None  # equal parts of a run of MAML
    generations = run.generations * (1 + int(before[1]) if before else 1)
    return {
        "run": run.name,
        "robot": robot_of(task),
        "engine": engine_of(task),
        "rules": whose_rules(algorithm, objective, optimizer) if robot_of(task) != "interference" else "text",
        "algorithm": algorithm,
        "kind": kind_of(run.name, about["kind"], population),
        "seed": f"{run.config['run']['seed']}",
        "generations": f"{generations}",
        "population": f"{population['size']}",
        "std": f"{population['std']:g}",
        "rollouts": f"{task.get('rollouts', 1)}",
        "starts": task.get("starts", "fixed"),
        "direction": f"{task.get('direction', 0.0):g}" if algorithm == "standard ES" else "",
        "start": f"{ALGORITHMS[start['objective']]}" if start.get("objective") in ALGORITHMS else "random",
        "start_digest": start.get("state_sha256", ""),
        "digest": about["state_sha256"],
    }


def robot_of(task: dict[str, Any]) -> str:
    """Return the robot: of the paper, or of Gymnasium."""
    model = f"{task.get('model', '')}{task.get('env', '')}".lower()
    if task["name"] in ("mujoco", "gymnasium"):
        return "gymnasium-cheetah" if "cheetah" in model else "gymnasium-ant"
    return str(task["name"])


def engine_of(task: dict[str, Any]) -> str:
    """Return the engine of the robots of a task."""
    return {"interference": "none", "mujoco": "mujoco"}.get(task["name"], str(task.get("engine", "bullet")))


def kind_of(name: str, kind: str, population: dict[str, Any]) -> str:
    """Return the kind of a run: training, part of one, seeding, mixture, split, sample, starts (`measure --starts`)."""
    if kind != "run":
        return "starts" if name.endswith("-starts") else "sample"
    if population["name"] == "mixture":
        return "split" if "split" in name else "mixture"
    if re.search(r"-part\d", name):
        return "part"
    return "seeding" if re.search(r"-(adapt|further)\b", name) else "training"


def whose_rules(algorithm: str, objective: dict[str, Any], optimizer: dict[str, Any]) -> str:
    """Return text, released or other: whose settings a run has, of those that its algorithm uses."""
    normalization, bandwidth = objective.get("normalization", "whiten"), round(objective.get("bandwidth", 1.0), 4)
    mine = {"l2": optimizer.get("l2"), "normalization": normalization, "bandwidth": bandwidth}
    used = list(mine)[: {"MAML": 0, "standard ES": 1, "MaxVar": 2, "MaxEnt": 3}[algorithm]]
    for name, theirs in RULES.items():
        if all(mine[key] == theirs[key] for key in used):
            return name
    return "other"


def endpoints(run: KeptRun, known: Row) -> Row:
    """Return the endpoints that a run with these facts has, as text with six digits."""
    metrics = run.metrics
    if "mean_x" in metrics:
        found = {"x_settled": metrics["mean_x"][-SETTLED:].mean()}
    else:
        found = places(run) | adaptations(run)
        found |= {f"{name}_last": metrics[name][-1] for name in LAST if name in metrics}
        if run.config.get("objective", {}).get("name") == "fitness" and not run.config["task"].get("direction"):
            found |= {f"x_{n}": metrics["fitness_mean"][n] for n in UPDATES if n < run.generations}
        if (known["kind"], known["rules"], known["algorithm"]) == ("training", "released", "MaxEnt"):
            found |= weights(run)
    return {name: f"{value:.6g}" for name, value in found.items() if math.isfinite(value)}


def places(run: KeptRun) -> dict[str, float]:
    """Return how far offspring go and where: of the last generation, and means over several ones."""
    metrics, found = {**run.metrics}, {}
    if "balance" in metrics:
        # `balance` is twice the smaller side over both, of those beyond 5 units; NaN if there is nobody.
        metrics["side"] = np.nan_to_num(metrics["balance"]) * (1 - metrics["near_origin"]) / 2
    if "ring" in metrics:
        # `ring` is 8 times the smallest sum over all individuals, also invalid ones.
        metrics["evenness"] = metrics["ring"] / (metrics["distance_mean"] * (1 - metrics["invalid_share"]))
        place = run.last[np.isfinite(run.last).all(axis=1)]
        found["directions_last"] = directions(place)
        if "correlation" not in metrics:
            found["correlation_last"] = correlation(place)
    for name, metric in MEASURES.items():
        if metric in metrics:
            values = metrics[metric]
            found |= {f"{name}_last": values[-1], f"{name}_last_10": values[-10:].mean()}
            if run.generations >= WINDOW.stop:
                found[f"{name}_90_99"] = values[WINDOW].mean()
    if len(run.last):
        found["x_variance_last"] = np.nanvar(run.last[:, 0])
    if run.component.any():
        distance = np.linalg.norm(run.last, axis=1)
        found["slower_last"] = min(np.nanmean(distance[run.component == k]) for k in np.unique(run.component))
    return found


def adaptations(run: KeptRun) -> dict[str, float]:
    """Return what adaptation has reached: left, right, and on average; the same from its own start; the wrong sides."""
    found: dict[str, float] = {f"adapt_{way}": np.nanmean(each) for way, each in run.evaluations.items()}
    if len(found) == len(WAYS):
        found["adapt"] = (found["adapt_left"] + found["adapt_right"]) / 2
        found["adapt_wrong"] = sum((each <= 0).sum() for each in run.evaluations.values())
        own = [np.nanmax(each) for each in run.mutations.values() if np.isfinite(each).any()]
        found["adapt_best"] = np.mean(own) if len(own) == len(WAYS) else math.nan
    return found


def weights(run: KeptRun) -> dict[str, float]:
    """Return how the weights correlate that MaxVar and MaxEnt give to the kept offspring, by three rules."""
    found = {}
    for name, (normalization, bandwidth) in WEIGHTS.items():
        maxvar = maxvar_weights(run.last, normalization=normalization)
        maxent = maxent_weights(run.last, normalization=normalization, bandwidth=bandwidth)
        found[f"weights_{name}"] = np.corrcoef(maxvar, maxent)[0, 1]
    return found


def directions(place: Floats) -> int:
    """Return how many of 36 directions offspring have reached: beyond 5 units, and half the mean distance."""
    distance = np.hypot(*place.T)
    return len(np.unique(sectors(place[distance >= max(FAR, distance.mean() / 2)], DIRECTIONS)))


def write(results: Path) -> Path:
    """Write numbers.csv of a folder of blocks."""
    path = results / NUMBERS
    path.write_text(table(results.glob("*.h5")), encoding="utf-8")
    return path


def table(blocks: Iterable[Path]) -> str:
    """Return the text of numbers.csv, from the HDF5 files alone."""
    runs = [(path.stem, run) for path in sorted(blocks) for run in read_block(path)]
    known = [{"block": block, **facts(run)} for block, run in runs]
    found = [endpoints(run, each) for (_, run), each in zip(runs, known, strict=True)]
    columns = [*(known[0] if known else ()), *sorted({name for row in found for name in row})]
    return as_csv([first | second for first, second in zip(known, found, strict=True)], columns)


def as_csv(rows: Iterable[Row], columns: Iterable[str]) -> str:
    """Return rows as a table with commas; a cell that a row does not have is empty."""
    file = io.StringIO()
    writer = csv.DictWriter(file, list(columns), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def write_measured(results: Path) -> Path:
    """Write heritability.csv: rows of all measurements that the blocks keep, and the older ones."""
    path = results / MEASURED
    rows = {(row["mean"], row["engine"]): row for row in (read(path) if path.exists() else [])}
    raw = {}
    for block in sorted(results.glob("*.h5")):
        runs = {run.name: run for run in read_block(block)}
        for name, places in read_by_start(block).items():
            row = row_of(name, places, runs)
            key = row["mean"], row["engine"]
            rows[key], raw[key] = row, places
    for (mean, engine), places in raw.items():
        again = raw.get((f"{mean}-again", engine))
        if again is not None:
            rows[mean, engine] |= {f"twice_{part}": f"{value:.6g}" for part, value in twice(places, again).items()}
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
