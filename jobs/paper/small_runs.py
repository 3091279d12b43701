"""Collect the small files of a run, in a folder named after it; `results.py pack` makes blocks of such folders.

`run.json` has the config, digest, versions and machine. `metrics.csv` has a row for each generation, with measures of
all its offspring. `behaviors.npz` has the final positions (float32) of the last generation. `by_start.npz`, of a
measurement with `--starts`, has the place of each mutation from each start. `policy.npz`, if it is there, has the
trained mean: `ees-mpi train --from`, `adapt` and `sample` start from it. No file has a path of the machine.
"""

import csv
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from places import ring

from ees_mpi.analysis.numbers.heritability import places_of
from ees_mpi.analysis.numbers.measures import MEASURES, Settings, sides
from ees_mpi.analysis.offspring import Offspring, has_positions, read_offspring
from ees_mpi.commands.export import export_policy
from ees_mpi.commands.signal import step_lengths
from ees_mpi.commands.verify import learned_after
from ees_mpi.config import Evolution
from ees_mpi.store.hdf5 import attributes
from ees_mpi.store.layout import BY_START
from ees_mpi.store.reader import Run, open_run
from ees_mpi.store.safety import open_hdf5
from ees_mpi.tasks.locomotion import PolicyTask

THIN = 1000  # offspring of a small population, at most
TIMES = [
    f"seconds_{name}"
    for name in ("commit", "gather", "slowest_rank", *(f"evaluate_{n}" for n in ("max", "mean", "min")))
]
MANY, LONG = 500, ("seconds_clock", "distance_mean", "entropy", "fitness_mean")  # a run of more generations has these
SMALL = 16  # parameters: the means of so small individuals are stored


def _measure(name: str, offspring: Offspring) -> float:
    return MEASURES[name].compute(offspring, Settings())


DRAWN = ("near_origin", "coverage", "balance", "direction_uniformity", "correlation")
BESIDE = Settings(radius=1.0)  # for left and right
EVERY: dict[str, Callable[[Offspring], float]] = {  # measures of each generation, if they fit
    **{name: partial(_measure, name) for name in DRAWN},
    "left": lambda offspring: sides(offspring, BESIDE)[0],
    "right": lambda offspring: sides(offspring, BESIDE)[1],
    "ring": lambda offspring: ring(offspring.position, len(offspring.outcomes.behavior)),
}


def measures(run: Run) -> dict[str, Any]:
    """Return the measures of all offspring of each generation; NaN where no offspring are stored."""
    if not (run.config.population.has_individuals and has_positions(run)):
        return {}
    other = {1: ("direction_uniformity", "correlation", "ring"), 2: ("balance", "left", "right")}.get(
        run.config.task.axes, ()
    )
    found: dict[str, list[float]] = {name: [] for name in EVERY if name not in other}
    for g in range(run.generations):
        valid = np.asarray(run["valid"][g], bool) & np.isfinite(run["behavior"][g]).all(axis=1)
        offspring = read_offspring(run, g) if valid.any() else None
        for name, values in found.items():
            values.append(EVERY[name](offspring) if offspring else np.nan)
    return {name: np.array(values) for name, values in found.items()}


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


def positions(run: Run) -> dict[str, Any]:
    """Return the arrays of behaviors.npz: the last generation, as `full` if it is large and else as `thin`."""
    count, size, _ = run["behavior"].shape
    behavior, parent = np.array(run["behavior"][-1:], np.float32), np.array(run["parent"][-1:], np.int8)
    behavior[:, ~np.asarray(run["valid"][-1], bool)] = np.nan  # the small files have no other mark
    arrays: dict[str, Any] = {}
    for kind, rows in ("full", slice(size > THIN)), ("thin", slice(size <= THIN)):  # one of them is empty
        arrays |= {f"{kind}_generation": np.array([count - 1])[rows], f"{kind}_behavior": behavior[rows]}
        arrays[f"{kind}_parent"] = parent[rows]
    if run.config.task.parameters <= SMALL:
        arrays["mean"] = np.asarray(run["mean"][:], np.float32)
    return arrays


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
        kept = LONG if run.generations > MANY else [name for name in scalar if name not in ("generation", *TIMES)]
        metrics = {name: run[name][:] for name in kept if name in scalar}
        if run.generations <= MANY and about["kind"] == "run" and isinstance(run.config.method, Evolution):
            metrics["step_nats"] = np.array([step_nats(run, g) for g in range(run.generations)])
        if BY_START in run.names and about["kind"] == "run":
            metrics["distance_single"] = np.array([single_distance(run, g) for g in range(run.generations)])
        write(folder, about, {**metrics, **measures(run)}, positions(run))
        if about["kind"] == "study" and BY_START in run.names:
            np.savez_compressed(folder / "by_start.npz", by_start=places_of(run, 0).astype(np.float16))
        means = run["mean"].shape[1] if policy and isinstance(run.config.task, PolicyTask) else 0
        for component in range(means):
            out = folder / ("policy.npz" if means == 1 else f"policy-{component}.npz")
            export_policy(run, out, component=component, overwrite=True)[1].unlink()  # the loader is not kept
            strip_policy(out)
    return folder


def single_distance(run: Run, generation: int) -> float:
    """Return the mean distance of single rollouts, where a behaviour is the mean over several starts."""
    return float(np.nanmean(np.linalg.norm(run[BY_START][generation], axis=-1)))


def step_nats(run: Run, generation: int) -> float:
    """Return the length of the step that a generation made: the KL divergence of the search distributions."""
    return step_lengths(run.config.population, run.learned(generation), learned_after(run, generation))[1]


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
