"""One number per run, by which groups of runs are compared; from run files or from files of `ees-mpi adapt`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi.analysis.labels import Settings as ConfigSettings
from ees_mpi.analysis.labels import algorithm, label
from ees_mpi.analysis.labels import settings as config_settings
from ees_mpi.analysis.numbers.measures import DIRECTED, MEASURES, Settings, beyond_radius
from ees_mpi.analysis.offspring import check_generation, read_offspring
from ees_mpi.analysis.subject import check_training, stds, subject
from ees_mpi.commands.adapt import is_adaptation, read_adaptation
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.registry import unknown
from ees_mpi.store.reader import Run, open_run
from ees_mpi.store.safety import damage_reported

AFTER = "distance_after"
GENERATIONS = (5, 10, 20)  # of further evolution, after which the paper compares
METRICS = {
    **{name: measure.about for name, measure in MEASURES.items()},
    f"{AFTER}_G": "mean distance in the task's direction after G generations",
    "adaptation": "distance in the wanted direction after `ees-mpi adapt`, mean over directions",
}


@dataclass(frozen=True)
class RunValue:
    """The number of one run, and the facts that must agree before it is compared with others."""

    label: str
    value: float
    path: Path
    run_id: str
    task: dict[str, Any]
    size: int  # the number of individuals
    generation: int
    complete: bool
    directions: tuple[float, ...] = ()  # to which it was adapted
    training_steps: int = 0
    adaptation_steps: float = 0.0  # for one direction
    settings: ConfigSettings = field(default_factory=dict)  # the config, by key
    std: float = 0.0  # of the mutations, in a study
    moved: int = 0  # the offspring beyond the radius


def check_metrics(metrics: Sequence[str]) -> list[str]:
    """Return the names of metrics after a check; `distance_after` is short for the paper's three."""
    names: list[str] = []
    for metric in metrics:
        name = metric.replace("-", "_")
        if name == AFTER:
            names += [f"{AFTER}_{g}" for g in GENERATIONS]
        elif (name in METRICS and not name.endswith("_G")) or re.fullmatch(rf"{AFTER}_\d+", name):
            names.append(name)
        else:
            raise ConfigError(f"--metric: {unknown(name, METRICS)}")
    return names


def describe(metric: str) -> str:
    """Return the description of a metric."""
    generations = metric.removeprefix(f"{AFTER}_")
    return METRICS.get(metric) or METRICS[f"{AFTER}_G"].replace("G ", f"{generations} ")


def read_all(metric: str, paths: Sequence[Path], settings: Settings, generation: int | None) -> list[RunValue]:
    """Return the number of each run; adaptation files are left out, except for the metric adaptation."""
    if metric == "adaptation":
        return _read_adapted(paths)
    runs = [path for path in paths if not is_adaptation(path)]
    if not runs:
        raise RunFileError(f"{paths[0]} is an adaptation file, which only --metric adaptation compares")
    values = []
    for path in runs:
        with open_run(path) as run:
            values.append(_of_run(run, metric, settings, generation))
    return values


def _of_run(run: Run, metric: str, settings: Settings, generation: int | None) -> RunValue:
    if metric.startswith(AFTER):
        g, moved = int(metric.removeprefix(AFTER)[1:]), 0
        value = distance_after(run, g)
    else:
        g = check_generation(run, generation)
        measure, offspring = MEASURES[metric], read_offspring(run, g)
        if not measure.fits(offspring):
            raise RunFileError(f"{run.path}: {metric} needs {measure.needs}")
        value = measure.compute(offspring, settings)
        moved = int(beyond_radius(offspring, settings).sum())
    if np.isnan(value) and metric in DIRECTED:
        raise RunFileError(
            f"{run.path}: none of its offspring ended {settings.radius:g} or more from the origin, "
            f"so it has no {metric}; see --radius"
        )
    if not np.isfinite(value):
        raise RunFileError(f"{run.path}: its {metric} is {value}, which cannot be compared")
    sections = run.config.sections()
    task, values = sections["task"], config_settings(sections)
    complete = run.complete or generation is not None or metric.startswith(AFTER)
    of, std = subject(run), stds(run)[g] if stds(run) else 0.0
    trained = g if of.generation is None else of.generation
    about = run.path, of.run_id, task, run["behavior"].shape[1], trained, complete
    return RunValue(label(run), value, *about, settings=values, std=std, moved=moved)


def distance_after(run: Run, generation: int) -> float:
    """Return the mean distance along the task's direction; row g is the population after g updates."""
    if run.config.task.heading is None:
        raise RunFileError(f"{run.path}: its task has no direction; expected a run of a walking task")
    check_generation(run, None)
    check_training(run)
    if run.generations <= generation:
        raise RunFileError(
            f"{run.path} has {run.generations} generations, so it has no population after {generation}; "
            f"ees-mpi resume {run.path} --generations {generation + 1}"
        )
    return float(run["fitness_mean"][generation])


def _read_adapted(paths: Sequence[Path]) -> list[RunValue]:
    """Return for each run the mean distance over the directions to which it was adapted."""
    runs: dict[str, list[RunValue]] = {}
    for adaptation in _find_adaptations(paths):
        others = runs.setdefault(adaptation.run_id, [])
        for other in others:
            if other.directions == adaptation.directions:
                raise RunFileError(f"{adaptation.path} and {other.path} have the same run and direction; give only one")
        others.append(adaptation)
    if not runs:
        raise RunFileError(f"{paths[0]} is a sample; expected run files, or files that ees-mpi adapt wrote")
    return [
        replace(
            adaptations[0],
            value=float(np.mean([adaptation.value for adaptation in adaptations])),
            directions=tuple(sorted(adaptation.directions[0] for adaptation in adaptations)),
            adaptation_steps=float(np.mean([adaptation.adaptation_steps for adaptation in adaptations])),
        )
        for adaptations in runs.values()
    ]


def _find_adaptations(paths: Sequence[Path]) -> list[RunValue]:
    """Return the adaptations of some files, each once; a run file stands for those in its folder, a sample for none."""
    adaptations: dict[Path, RunValue] = {}
    for path in paths:
        if is_adaptation(path):
            adaptations[path.resolve()] = _read_adaptation(path)
            continue
        with open_run(path) as run:
            if not subject(run).trained:
                continue
            run_id, generations = run.run_id, run.generations
        beside = sorted(path.parent.glob("*.h5"))
        files = [file for file in beside if file.name.startswith(f"{path.stem}-adapt-") and is_adaptation(file)]
        matching = [value for value in map(_read_adaptation, files) if value.run_id == run_id]
        if not matching:
            raise RunFileError(
                f"{path} has no adaptation file in its folder; make one for each direction: "
                f"ees-mpi adapt {path} --direction left"
            )
        for value in matching:
            if value.generation != generations:
                raise RunFileError(
                    f"{value.path} is of generation {value.generation} of a run that has {generations} now; give the "
                    "adaptation file itself, or make a new one with ees-mpi adapt --overwrite"
                )
        adaptations |= {value.path.resolve(): value for value in matching}
    return list(adaptations.values())


def _read_adaptation(path: Path) -> RunValue:
    """Return the mean distance of the evaluations of an adaptation file, in one direction."""
    with damage_reported(path):
        adaptation = read_adaptation(path)
        facts, note, config = adaptation.attributes, adaptation.run, adaptation.config
        direction = float(facts["direction"]) % 360
        steps = int(facts["training_steps"]), int(facts["adaptation_steps"])
        about = path, str(note["run_id"]), config["task"], len(adaptation.fitness), int(note["generation"]), True
        name = algorithm(adaptation.algorithm)
    if not np.isfinite(adaptation.fitness).any():
        raise RunFileError(f"{path}: none of its {len(adaptation.fitness)} evaluations is finite")
    mean = float(np.nanmean(adaptation.fitness))
    return RunValue(name, mean, *about, (direction,), *steps, config_settings(config))
