"""One number a run: what groups of runs are compared by."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi.analysis.labels import label
from ees_mpi.analysis.numbers import adaptations
from ees_mpi.analysis.numbers.measures import DIRECTED, MEASURES, Settings
from ees_mpi.analysis.offspring import cloud, source, which
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.registry import unknown
from ees_mpi.store.reader import Run, open_run

AFTER = "distance-after"
GENERATIONS = (5, 10, 20)  # of further evolution, after which the paper compares
METRICS = {
    **{name: measure.about for name, measure in MEASURES.items()},
    f"{AFTER}-G": "mean distance in the task's direction after G generations",
    "adaptation": "distance in the wanted direction after `ees-mpi adapt`, mean over directions",
}


@dataclass(frozen=True)
class Value:
    """The number of one run, and what must be alike for it to be compared with others."""

    label: str
    value: float
    path: Path
    run_id: str
    task: dict[str, Any]
    size: int  # individuals that it is of
    generation: int
    complete: bool
    directions: tuple[float, ...] = ()  # that it was adapted in
    training_steps: int = 0
    adaptation_steps: float = 0.0  # for one direction


def expand(metrics: Sequence[str]) -> list[str]:
    """Check names of metrics; `distance-after` is short for the paper's three."""
    names: list[str] = []
    for metric in metrics:
        name = metric.replace("_", "-")
        if name == AFTER:
            names += [f"{AFTER}-{g}" for g in GENERATIONS]
        elif (name in METRICS and not name.endswith("-G")) or re.fullmatch(rf"{AFTER}-\d+", name):
            names.append(name)
        else:
            raise ConfigError(f"--metric: {unknown(name, METRICS)}")
    return names


def chooses(metric: str) -> bool:
    """Tell whether a metric can be had of any generation."""
    return metric in MEASURES


def about(metric: str) -> str:
    """Say in words what a metric is."""
    if metric.startswith(AFTER):
        return METRICS[f"{AFTER}-G"].replace("G ", f"{metric.removeprefix(AFTER)[1:]} ")
    return METRICS[metric]


def read(metric: str, paths: Sequence[Path], settings: Settings, generation: int | None) -> list[Value]:
    """Return the number of each run that files are of, each once."""
    if metric == "adaptation":
        return _adapted(paths)
    runs = [path for path in paths if not adaptations.is_adaptation(path)]
    if not runs:
        raise RunFileError(f"{paths[0]} is an adaptation file, which only --metric adaptation compares")
    values = []
    for path in runs:
        with open_run(path) as run:
            values.append(_of_run(run, metric, settings, generation))
    return values


def _of_run(run: Run, metric: str, settings: Settings, generation: int | None) -> Value:
    if metric.startswith(AFTER):
        g = int(metric.removeprefix(AFTER)[1:])
        value = _after(run, g)
    else:
        g = which(run, generation)
        measure, seen = MEASURES[metric], cloud(run, g)
        if not measure.fits(seen):
            raise RunFileError(f"{run.path}: {metric} needs {measure.needs}")
        value = measure.of(seen, settings)
    if np.isnan(value) and metric in DIRECTED:
        raise RunFileError(
            f"{run.path}: none of its offspring went {settings.radius:g} or more from the origin, "
            f"so it has no {metric}; see --radius"
        )
    if not np.isfinite(value):
        raise RunFileError(f"{run.path}: its {metric} is {value}, which cannot be compared")
    task = run.config.sections()["task"]
    settled = run.complete or generation is not None or metric.startswith(AFTER)
    run_id, trained = source(run, g)
    return Value(label(run), value, run.path, run_id, task, run["behavior"].shape[1], trained, settled)


def _after(run: Run, generation: int) -> float:
    """Return the mean distance along the task's direction; row g is the population after g updates."""
    if run.config.task.heading is None:
        raise RunFileError(f"{run.path}: its task has no direction; expected a run of a walking task")
    which(run, None)
    if run.attributes.get("kind") == "sample":
        raise RunFileError(f"{run.path} is a sample, which has no later generations; give its run")
    if run.generations <= generation:
        raise RunFileError(
            f"{run.path} has {run.generations} generations, and the population after {generation} is not among them; "
            f"ees-mpi resume {run.path} --generations {generation + 1}"
        )
    return float(run["fitness_mean"][generation])


def _adapted(paths: Sequence[Path]) -> list[Value]:
    found = adaptations.find(paths)
    if not found:
        raise RunFileError(f"{paths[0]} is a sample; expected run files, or files that ees-mpi adapt wrote")
    values = []
    for run_id, each in adaptations.by_run(found).items():
        one = each[0]
        values.append(
            Value(
                label=one.label,
                value=float(np.mean([other.distance for other in each])),
                path=one.path,
                run_id=run_id,
                task=one.task,
                size=one.evaluations,
                generation=one.generation,
                complete=True,
                directions=tuple(sorted(other.direction for other in each)),
                training_steps=one.training_steps,
                adaptation_steps=float(np.mean([other.adaptation_steps for other in each])),
            )
        )
    return values
