"""`ees-mpi compare`: two sets of run files, or the values of a key, compared by one number per run.

The number of a run is a measure of its offspring, or comes from its files of `ees-mpi adapt`.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi import metrics
from ees_mpi.analysis import labels
from ees_mpi.analysis.numbers.selection import number_of, opened
from ees_mpi.analysis.numbers.statistics import FEWEST, compare, summarize
from ees_mpi.analysis.numbers.tables import Row, columns, number
from ees_mpi.commands.adapt import is_adaptation, read_adaptation
from ees_mpi.commands.requests import CompareRequest
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.run.file import Run
from ees_mpi.spread import Scale
from ees_mpi.store.files import damage_reported
from ees_mpi.tasks.locomotion import direction_name

Facts = dict[str, Any]  # the result for one metric, as data for JSON
ADAPTATION = {"adaptation": "distance in the wanted direction after `ees-mpi adapt`, mean over directions"}
GROUPS: Row = ("group", "runs", "median", "95 % interval", "mean", "sd")
TESTS: Row = ("test", "U", "p", "effect")
LEGEND = "p: Mann-Whitney U, two-sided; effect: the probability that a run of the first is above one of the second"
MAY_DIFFER = ("task.direction", "task.reset_seed", "task.observation_share", "task.device")  # others are noted


@dataclass(frozen=True)
class RunValue:
    """The number of one run, and the facts that must agree before it is compared with others."""

    label: str
    value: float
    path: Path
    run_id: str
    settings: labels.Settings  # the config, by key
    size: int  # the number of individuals
    generation: int
    valid: int = 0  # of the individuals
    directions: tuple[float, ...] = ()  # to which it was adapted
    chosen: tuple[str, ...] = ()  # of which mutations the adapted policies are the best, and by which starts
    std: float = 0.0  # of the mutations, in a study
    about: str = ADAPTATION["adaptation"]  # what the metric is, with the length on which it depends


def compare_runs(request: CompareRequest) -> list[Facts]:
    """Compare two sets of runs by each metric. Return the results as data for JSON."""
    wanted = [metric.replace("-", "_") for metric in request.metric]
    if request.generation is not None and "adaptation" in wanted:
        raise ConfigError(f"--generation {request.generation}: adaptation does not take a generation")
    if request.by and request.against:
        raise ConfigError("--by compares the values of a key with each other; leave out --against")
    if request.by and not request.first:
        raise ConfigError("--by: expected the files of several runs")
    for paths, usage in ((request.first, "RUN.h5 ... --against"), (request.against, "--against RUN.h5 ...")):
        if not paths and not request.by:
            raise ConfigError(f"compare: expected files on both sides of --against; {usage} has none")
    return [_compare(metric, request) for metric in dict.fromkeys(wanted)]


def listed() -> dict[str, str]:
    """Return all metrics that can be compared, with their meaning."""
    return {name: metrics.title(name) for name in metrics.METRICS} | ADAPTATION


def _compare(metric: str, request: CompareRequest) -> Facts:
    sides = read_all(metric, request)
    values = [value for side in sides for value in side]
    _check_comparable(metric, values, metric.startswith("fitness_") and request.by != "task.direction")
    first: dict[str, list[RunValue]] = {}
    second: dict[str, list[RunValue]] = {}
    if request.by:
        members = {value.path: value for value in values}
        files_of = labels.grouped(request.by, {path: value.settings for path, value in members.items()})
        first = {f"{request.by} = {name}": [members[path] for path in paths] for name, paths in files_of.items()}
    else:
        shared = {value.label for value in sides[0]} & {value.label for value in sides[1]}
        for named, side, which in ((first, sides[0], "first set"), (second, sides[1], "against")):
            for value in side:
                name = f"{value.label} ({which})" if value.label in shared else value.label
                named.setdefault(name, []).append(value)
    groups = first | second
    numbers = {name: np.array([run.value for run in runs]) for name, runs in groups.items()}
    # Each group of the first set against each of the second, then the groups of the first against each other.
    tests = compare(numbers, [*itertools.product(first, second), *itertools.combinations(first, 2)])
    if metric in ("entropy", "entropy_fixed"):  # they have no ratio, because their zero depends on the unit of length
        tests = [test | {"ratio": math.nan} for test in tests]
    return {
        "metric": metric,
        "about": values[0].about,
        "groups": [
            {"label": name, **summarize(numbers[name]), "values": {str(run.path): run.value for run in runs}}
            for name, runs in groups.items()
        ],
        "tests": tests,
        "notes": _notes(metric, request, groups),
    }


def _check_comparable(metric: str, values: list[RunValue], same_direction: bool) -> None:
    """Raise an error if a run is given twice, or if tasks, directions, generations or numbers of individuals differ."""
    labels.check_distinct((value.run_id, value.path) for value in values)
    labels.check_same_task([(value.path, value.settings) for value in values])
    one = values[0]
    for other in values:
        angles = [float(value.settings.get("task.direction", 0.0)) for value in (one, other)]
        if same_direction and angles[0] % 360 != angles[1] % 360:
            raise RunFileError(
                f"{one.path} and {other.path} were trained in different directions: "
                f"task.direction is {angles[0]:g} and {angles[1]:g}"
            )
    generations = sorted({value.generation for value in values if not (value.std or value.directions)})
    if len(generations) > 1:
        raise RunFileError(
            f"the runs are at different generations, {generations[0]} to {generations[-1]}; --generation "
            f"{generations[0]} compares one that all have"
        )
    sizes = sorted({value.size for value in values})
    if metric == "coverage" and len(sizes) > 1:
        raise RunFileError(
            f"{sizes[0]} to {sizes[-1]} individuals: more of them visit more cells, so that their coverage cannot be "
            "compared; ees-mpi sample RUN.h5 --count 1000 makes equally many"
        )
    directions = {direction for value in values for direction in value.directions}
    for value in values:
        for direction in sorted(directions - set(value.directions)):
            raise RunFileError(
                f"{value.path}: its run was not adapted in direction {direction_name(direction)}, as others were; "
                f"ees-mpi adapt RUN.h5 --direction {direction_name(direction)}"
            )


def _notes(metric: str, request: CompareRequest, groups: Mapping[str, list[RunValue]]) -> list[str]:
    """Return the facts that a reader should know before trusting the table."""
    values = [value for runs in groups.values() for value in runs]
    differing, expected = labels.differing([value.settings for value in values]), (*MAY_DIFFER, request.by)
    shown = [key for key in differing if key not in expected and (request.by or key.startswith("task."))]
    notes = [f"the runs {'also ' if request.by else ''}differ in {', '.join(shown)}"] if shown else []
    for name, runs in groups.items() if not request.by else ():
        unlike = [key for key in labels.differing([run.settings for run in runs]) if not key.startswith("task.")]
        if unlike:
            notes.append(f"the runs of {name} are no repetitions of one another: they differ in {', '.join(unlike)}")
    stds = sorted({value.std for value in values if value.std})
    if len(stds) > 1 and request.by != "population.std":
        listed = ", ".join(f"{std:g}" for std in stds)
        notes.append(
            f"the mutations have different stds, {listed}; --generation N compares those of row N of all files"
        )
    if len({way for value in values for way in value.chosen}) > 1:
        ways = {name: dict.fromkeys(way for run in runs for way in run.chosen) for name, runs in groups.items()}
        told = [f"{' or '.join(some)} ({name})" for name, some in ways.items() if some]
        notes.append(f"the runs were adapted in different ways: {'; '.join(told)}")
    valid = sorted({value.valid for value in values})
    if metric == "coverage" and len(valid) > 1:
        counts = f"{valid[0]} to {valid[-1]} valid individuals"
        notes.append(f"the runs have {counts}, and more of them visit more cells")
    for label in dict.fromkeys(value.label for value in values):
        trained = sorted({value.generation for value in values if value.label == label})
        if len(trained) > 1:  # of samples and adaptations; others are refused
            notes.append(f"the runs of {label} were trained for {trained[0]} to {trained[-1]} generations")
    return notes


def read_all(metric: str, request: CompareRequest) -> tuple[list[RunValue], list[RunValue]]:
    """Return the number of each run of both sets; files of `adapt` count for the metric adaptation only."""
    if metric == "adaptation":
        return _read_adapted(request.first), _read_adapted(request.against) if request.against else []
    first, against = ([path for path in paths if not is_adaptation(path)] for paths in (request.first, request.against))
    for paths, others in ((request.first, first), (request.against, against)):
        if paths and not others:
            raise RunFileError(f"{paths[0]} is an adaptation file, which only --metric adaptation compares")
    with opened((*first, *against), request.generation, request.cell, request.radius) as chosen:
        values = [_of_run(metric, *each) for each in chosen]
    return values[: len(first)], values[len(first) :]


def _of_run(metric: str, run: Run, g: int, scale: Scale) -> RunValue:
    value = number_of(run, metric, g, scale)
    if np.isnan(value) and metric in metrics.METRICS and metrics.METRICS[metric].length == "radius":
        raise RunFileError(
            f"{run.path}: none of its mutations ended {scale.radius:g} or more from the origin, "
            f"so it has no {metric}; see --radius"
        )
    if not np.isfinite(value):
        raise RunFileError(f"{run.path}: its {metric} is {value}, which cannot be compared")
    of, std = labels.subject(run), labels.stds(run)[g] if labels.stds(run) else 0.0
    trained = g if of.generation is None else of.generation
    keys = {**labels.settings_of(run), **({"population.std": std} if std else {})}
    about = run.path, of.run_id, keys, run["behavior"].shape[1], trained
    valid = int(run["valid"][g].sum())
    return RunValue(labels.label(run), value, *about, valid, std=std, about=metrics.title(metric, scale))


def _read_adapted(paths: Sequence[Path]) -> list[RunValue]:
    """Return for each run the mean distance over the directions to which it was adapted; other files are left out."""
    runs: dict[str, list[RunValue]] = {}
    for adaptation in map(_read_adaptation, filter(is_adaptation, paths)):
        others = runs.setdefault(adaptation.run_id, [])
        for other in others:
            if other.directions == adaptation.directions:
                raise RunFileError(f"{adaptation.path} and {other.path} have the same run and direction; give only one")
        others.append(adaptation)
    if not runs:
        raise RunFileError(f"{paths[0]} is no file of ees-mpi adapt; --metric adaptation needs one for each direction")
    return [
        replace(
            adaptations[0],
            value=float(np.mean([adaptation.value for adaptation in adaptations])),
            directions=tuple(sorted(adaptation.directions[0] for adaptation in adaptations)),
            chosen=tuple(way for adaptation in adaptations for way in adaptation.chosen),
        )
        for adaptations in runs.values()
    ]


def _read_adaptation(path: Path) -> RunValue:
    """Return the mean distance of the evaluations of an adaptation file, in one direction."""
    with damage_reported(path):
        adaptation = read_adaptation(path)
        facts, note, config = adaptation.attributes, adaptation.run, adaptation.config
        direction = float(facts["direction"]) % 360
        mutations = adaptation.arrays.get("mutations/fitness", ())  # none, if it was adapted by a gradient step
        about = path, str(note["run_id"]), labels.settings(config), len(mutations), int(note["generation"])
        name = labels.algorithm(adaptation.algorithm)
    if not np.isfinite(adaptation.fitness).any():
        raise RunFileError(f"{path}: none of its {len(adaptation.fitness)} evaluations is finite")
    mean = float(np.nanmean(adaptation.fitness))
    how = f", chosen {facts['chosen']}" if "chosen" in facts else ""  # an earlier version did not note it
    chosen = (f"best of {len(mutations)} mutations{how}",) if len(mutations) else ()
    return RunValue(name, mean, *about, directions=(direction,), chosen=chosen)


def text(facts: Facts) -> str:
    """Return the tables of a comparison for the terminal."""
    tests, groups = facts["tests"], [GROUPS]
    for group in facts["groups"]:
        low, median, high, mean, std = (number(group[name]) for name in ("low", "median", "high", "mean", "std"))
        interval = "-" if math.isnan(group["low"]) else f"{low} to {high}"
        groups.append((group["label"], str(group["runs"]), median, interval, mean, std))
    several, ratios = len(tests) > 1, not any(math.isnan(test["ratio"]) for test in tests)
    head = (*TESTS, "ratio of means" if ratios else "difference of means")
    rows: list[Row] = [(*head, "p (Holm)") if several else head]
    for test in tests:
        apart = f"{100 * test['ratio']:.1f} %" if ratios else number(test["difference"])
        p = (f"{test['p']:.3g}" if test["p"] < 0.001 else f"{test['p']:.3f}") + ("" if test["exact"] else "*")
        cells: Row = (f"{test['first']} against {test['second']}", f"{test['u']:g}", p, f"{test['effect']:.2f}", apart)
        rows.append((*cells, f"{test['holm']:.3g}") if several else cells)
    legend = LEGEND + ("" if all(test["exact"] for test in tests) else "; *: normal approximation")
    legend += f"; an interval needs {FEWEST} runs" if any(math.isnan(group["low"]) for group in facts["groups"]) else ""
    notes = [f"note: {note}" for note in facts["notes"]]
    head_line = f"{facts['metric']}: {facts['about']}"
    return "\n".join([head_line, "", *columns(groups), "", *columns(rows), "", legend, *notes])
