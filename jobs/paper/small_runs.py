"""Collect the small files of a run, in a folder named after it; `results.py pack` makes blocks of such folders.

`run.json` has the config, digest, versions and machine. `metrics.csv` has a row for each generation, with measures of
all its offspring. `behaviors.npz` has the behaviours (float32) of the last generation. `by_start.npz`, of a
measurement with `--starts`, has the place of each mutation from each start. `policy.npz`, if it is there, has the
trained mean: `ees-mpi train --from`, `adapt` and `sample` start from it. No file has a path of the machine.
"""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
from places import ring

from ees_mpi.analysis.numbers.heritability import places_of
from ees_mpi.analysis.numbers.measures import MEASURES, sides
from ees_mpi.analysis.numbers.scale import Scale
from ees_mpi.analysis.offspring import Offspring, has_positions, read_offspring
from ees_mpi.commands.export import export_policy
from ees_mpi.store.hdf5 import attributes
from ees_mpi.store.layout import BY_START
from ees_mpi.store.reader import Run, open_run
from ees_mpi.store.safety import open_hdf5
from ees_mpi.tasks.locomotion import PolicyTask

TIMES = ("seconds_clock", "seconds_evaluate", "seconds_update")  # the others are not kept
MANY, LONG = 500, ("seconds_clock", "distance_mean", "entropy", "fitness_mean")  # a run of more generations has these
SMALL = 16  # parameters: the means of so small individuals are stored
MEASURED = (
    "near_origin",
    "coverage",
    "balance",
    "direction_uniformity",
    "correlation",
    "distance_variance",
    "specialization",
)
CELL, RADIUS, BESIDE = 1.0, 5.0, 1.0  # the last one is the radius for left and right


def measures(offspring: Offspring) -> dict[str, float]:
    """Return the measures of the offspring of a generation."""
    names = [name for name in MEASURED if MEASURES[name].fits(offspring)]
    axes = offspring.position.shape[1]
    scale = Scale(np.full(axes, CELL), RADIUS)
    found = {name: MEASURES[name].compute(offspring, scale) for name in names}
    if axes == 1:
        found["left"], found["right"] = sides(offspring, scale._replace(radius=BESIDE))
    if axes == 2:
        found["ring"] = ring(offspring.position, len(offspring.outcomes.behavior))
    return found


def all_measures(run: Run) -> dict[str, Any]:
    """Return the measures of each generation; NaN where no offspring are valid."""
    if not (run.config.population.has_individuals and has_positions(run)):
        return {}
    rows = []
    for g in range(run.generations):
        valid = np.asarray(run["valid"][g], bool) & np.isfinite(run["behavior"][g]).all(axis=1)
        rows.append(measures(read_offspring(run, g)) if valid.any() else {})
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}


def write(folder: Path, about: dict[str, Any], metrics: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write run.json, metrics.csv and behaviors.npz."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    with (folder / "metrics.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["generation", *metrics])
        digits = {"seconds_clock": 13}  # seconds since 1970
        for g in range(about["generations"]):
            table.writerow([g, *(f"{values[g]:.{digits.get(name, 6)}g}" for name, values in metrics.items())])
    np.savez_compressed(folder / "behaviors.npz", **arrays)


def last_generation(run: Run) -> dict[str, Any]:
    """Return the arrays of behaviors.npz: behaviours and parents of the last generation; means of few parameters."""
    behavior, parent = np.array(run["behavior"][-1], np.float32), np.array(run["parent"][-1], np.int8)
    behavior[~np.asarray(run["valid"][-1], bool)] = np.nan  # the small files have no other mark
    means = {"mean": np.asarray(run["mean"][:], np.float32)} if run.config.task.parameters <= SMALL else {}
    return {"behavior": behavior, "parent": parent, **means}


def collect(path: Path, results: Path, note: str = "", policy: bool = False) -> Path:
    """Write the small files of a run file; return their folder. `policy`: with the trained mean, as policy.npz."""
    with open_hdf5(path) as file:
        if attributes(file).get("format") == "ees_mpi adaptation":
            return collect_adaptation(path, results)
    folder = results / path.stem
    with open_run(path) as run:
        scalar = [name for name in run.names if len(run[name].shape) == 1 and run[name].dtype.kind in "fiu"]
        about = {
            "run_id": run.run_id,
            "kind": str(run.attributes.get("kind", "run")),
            "started_from": without_folder(str(run.attributes.get("started_from") or "")),
            "note": note,
            "generations": run.generations,
            "state_sha256": run["state_sha256"][-1].decode(),
            "steps": sum(int(run["length"][g].sum()) for g in range(run.generations)),
            "sessions": run.sessions(),
            "config": run.config.to_toml(),
        }
        short = [name for name in scalar if name in TIMES or not name.startswith("seconds_")]
        metrics = {name: run[name][:] for name in (LONG if run.generations > MANY else short) if name in scalar}
        metrics.pop("generation", None)
        if BY_START in run.names and about["kind"] == "run":
            metrics["distance_single"] = np.array([single_distance(run, g) for g in range(run.generations)])
        write(folder, about, {**metrics, **all_measures(run)}, last_generation(run))
        if about["kind"] == "study" and BY_START in run.names:
            np.savez_compressed(folder / "by_start.npz", by_start=places_of(run, 0).astype(np.float16))
        if policy and isinstance(run.config.task, PolicyTask) and run["mean"].shape[1] == 1:
            out = folder / "policy.npz"
            export_policy(run, out, overwrite=True)
            strip_policy(out)
    return folder


def single_distance(run: Run, generation: int) -> float:
    """Return the mean distance of single rollouts, where a behaviour is the mean over several starts."""
    return float(np.nanmean(np.linalg.norm(run[BY_START][generation], axis=-1)))


def strip_policy(path: Path) -> None:
    """Write a policy again, compressed, with the name of its run file but no folder."""
    with np.load(path) as file:
        arrays = dict(file)
    arrays["about"] = np.array(without_folder(str(arrays["about"])))
    np.savez_compressed(path, **arrays)


def without_folder(note: str) -> str:
    """Return a JSON note on a run with the name of its file only; folders of a machine say nothing elsewhere."""
    facts = json.loads(note or "null")
    return json.dumps({**facts, "path": Path(facts["path"]).name}) if facts else ""


def collect_adaptation(path: Path, results: Path) -> Path:
    """Write the attributes and arrays of a file of `ees-mpi adapt` as JSON; return its path."""
    out = results / "adaptations" / f"{path.stem}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    with open_hdf5(path) as file:
        found = {key: value if isinstance(value, str) else value.item() for key, value in attributes(file).items()}
        found["run"] = without_folder(found["run"])
        for group in ("evaluations", "mutations", "rollouts"):
            found |= {f"{group}/{name}": data[:].tolist() for name, data in file.get(group, {}).items()}
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return out
