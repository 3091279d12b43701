"""`ees-mpi compare`: two sets of run files, or the values of a key, compared by one number per run."""

import itertools
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ees_mpi.analysis.labels import ALGORITHMS, check_distinct, differing, grouped
from ees_mpi.analysis.numbers import run_values
from ees_mpi.analysis.numbers.measures import DIRECTED, ENOUGH, MEASURES, Settings
from ees_mpi.analysis.numbers.run_values import RunValue
from ees_mpi.analysis.numbers.statistics import Group, Test, compare
from ees_mpi.commands.requests import CompareRequest
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.tasks.locomotion import direction_name

REACHABLE = 0.05  # groups should be large enough for a p below this
MAY_DIFFER = {"direction", "reset_seed", "observation_share", "device"}  # keys of a task; others are noted


@dataclass(frozen=True)
class RunGroup(Group):
    """The runs of one label in one of the two sets."""

    members: list[RunValue]


@dataclass(frozen=True)
class Comparison:
    """The result for one metric."""

    metric: str
    about: str
    groups: list[RunGroup]
    tests: list[Test]
    notes: list[str]


def compare_runs(request: CompareRequest, settings: Settings) -> list[Comparison]:
    """Compare two sets of runs by each metric; `settings`: of the measures."""
    metrics = run_values.check_metrics(request.metric)
    for metric in metrics:
        if request.generation is not None and metric not in MEASURES:
            raise ConfigError(f"--generation {request.generation}: {metric} does not take a generation")
    if request.by:
        if request.against:
            raise ConfigError("--by compares the values of a key with each other; leave out --against")
        if not request.first:
            raise ConfigError("--by: expected the files of several runs")
    for paths, usage in ((request.first, "RUN.h5 ... --against"), (request.against, "--against RUN.h5 ...")):
        if not paths and not request.by:
            raise ConfigError(f"compare: expected files on both sides of --against; {usage} has none")
    return [_compare(metric, request, settings) for metric in metrics]


def _compare(metric: str, request: CompareRequest, settings: Settings) -> Comparison:
    files = [[Path(path) for path in paths] for paths in (request.first, request.against) if paths]
    sides = [run_values.read_all(metric, paths, settings, request.generation) for paths in files]
    values = [value for side in sides for value in side]
    _check_comparable(values, metric.startswith(run_values.AFTER) and request.by != "task.direction")
    if request.by:
        members = {value.path: value for value in values}
        files_of = grouped(request.by, {path: value.settings for path, value in members.items()})
        named = {f"{request.by} = {name}": [members[path] for path in paths] for name, paths in files_of.items()}
        first, second = _groups(named), []
    else:
        first, second = (_groups(by_label) for by_label in _by_label(sides))
    # Each group of the first set against each of the second, then the groups of the first against each other.
    tests = compare([*itertools.product(first, second), *itertools.combinations(first, 2)])
    if metric == "entropy":  # a differential entropy has no ratio, because its zero depends on the unit of length
        tests = [replace(test, ratio=math.nan) for test in tests]
    notes = _notes(metric, request, values, tests)
    return Comparison(metric, run_values.describe(metric), [*first, *second], tests, notes)


def _by_label(sides: list[list[RunValue]]) -> list[dict[str, list[RunValue]]]:
    """Group each set by label; a label that both sets have is marked with the set."""
    shared = {value.label for value in sides[0]} & {value.label for value in sides[1]}
    found: list[dict[str, list[RunValue]]] = [{}, {}]
    for named, values, side in zip(found, sides, ("first set", "against"), strict=True):
        for value in values:
            name = f"{value.label} ({side})" if value.label in shared else value.label
            named.setdefault(name, []).append(value)
    return found


def _groups(named: dict[str, list[RunValue]]) -> list[RunGroup]:
    return [RunGroup(name, np.array([run.value for run in members]), members) for name, members in named.items()]


def _check_comparable(values: list[RunValue], same_direction: bool) -> None:
    """Raise an error if a run is given twice, or if tasks or directions differ."""
    check_distinct((value.run_id, value.path) for value in values)
    one = values[0]
    for other in values:
        for key in ("name", "env", "behavior"):
            if one.task.get(key) != other.task.get(key):
                raise RunFileError(
                    f"{one.path} and {other.path} are of different tasks: "
                    f"task.{key} is {one.task.get(key)!r} and {other.task.get(key)!r}"
                )
        angles = [float(value.task.get("direction", 0.0)) for value in (one, other)]
        if same_direction and angles[0] % 360 != angles[1] % 360:
            raise RunFileError(
                f"{one.path} and {other.path} were trained in different directions: "
                f"task.direction is {angles[0]:g} and {angles[1]:g}"
            )
    directions = {direction for value in values for direction in value.directions}
    for value in values:
        for direction in sorted(directions - set(value.directions)):
            raise RunFileError(
                f"{value.path}: its run was not adapted in direction {direction_name(direction)}, as others were; "
                f"ees-mpi adapt RUN.h5 --direction {direction_name(direction)}"
            )


def _notes(metric: str, request: CompareRequest, values: list[RunValue], tests: list[Test]) -> list[str]:
    """Return the facts that a reader should know before trusting the table."""
    notes = []
    ignored = len(request.first) + len(request.against) - len(values)
    if ignored and metric != "adaptation":
        notes.append(f"{ignored} adaptation files were left out")
    running = [value for value in values if not value.complete]
    if running:
        notes.append(f"{len(running)} of {len(values)} runs are not complete, for example {running[0].path}")
    # The generations of MAML are not generations of an evolution strategy.
    generations = sorted({value.generation for value in values if not value.label.startswith(ALGORITHMS["maml"])})
    if len(generations) > 1:
        notes.append(f"the runs are at different generations, {generations[0]} to {generations[-1]}; see --generation")
    stds = sorted({value.std for value in values if value.std})
    if len(stds) > 1:
        notes.append(
            f"the files have different std of the mutations, {stds[0]:g} to {stds[-1]:g}; --generation chooses the row"
        )
    sizes = sorted({value.size for value in values})
    if len(sizes) > 1:
        more = ": more individuals visit more cells" if metric == "coverage" else ""
        notes.append(f"the runs have different numbers of individuals, {sizes[0]} to {sizes[-1]}{more}")
    few = [value for value in values if value.moved < ENOUGH]
    if metric in DIRECTED and few:
        least = min(value.moved for value in few)
        notes.append(
            f"{len(few)} of {len(values)} runs have fewer than {ENOUGH} offspring beyond the radius, the fewest {least}"
        )
    expected = MAY_DIFFER | {(request.by or "").removeprefix("task.")}
    for key in sorted({key for value in values for key in value.task} - expected):
        settings = {repr(value.task.get(key)) for value in values}
        if len(settings) > 1:
            notes.append(f"the runs differ in task.{key}: {', '.join(sorted(settings))}")
    for test in tests:
        if test.least > REACHABLE:
            notes.append(f"{test.first} against {test.second}: with so few runs p cannot be below {test.least:.2g}")
    keys = differing([value.settings for value in values])
    others = [key for key in keys if key != request.by and not key.startswith("task.")]
    if request.by and others:
        notes.append(f"the runs differ in other keys, too: {', '.join(others)}")
    return notes
