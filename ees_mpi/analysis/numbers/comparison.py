"""Two sets of run files, told apart by one number each: what `ees-mpi compare` does."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ees_mpi.analysis.labels import ALGORITHMS
from ees_mpi.analysis.numbers import run_values as values
from ees_mpi.analysis.numbers.measures import Settings
from ees_mpi.analysis.numbers.run_values import Value
from ees_mpi.analysis.numbers.statistics import Group, Summary, Test, compare, summarize
from ees_mpi.errors import ConfigError, RunFileError

REACHABLE = 0.05  # a p that groups should be large enough to reach
BESIDE_THE_POINT = ("direction", "reset_seed", "observation_share")  # keys of a task in which runs may differ


@dataclass(frozen=True)
class Question:
    """What the command line asks for."""

    metrics: Sequence[str]
    first: Sequence[Path]
    second: Sequence[Path]
    settings: Settings
    generation: int | None = None
    alternative: str = "two-sided"


@dataclass(frozen=True)
class Kind:
    """The runs of one label in one of the two sets."""

    summary: Summary
    group: Group
    side: int
    members: list[Value]


@dataclass(frozen=True)
class Comparison:
    """What came of one metric."""

    metric: str
    about: str
    kinds: list[Kind]
    tests: list[Test]
    notes: list[str]


def answer(question: Question) -> list[Comparison]:
    """Compare by each metric in turn."""
    metrics = values.expand(question.metrics)
    for metric in metrics:
        if question.generation is not None and not values.chooses(metric):
            raise ConfigError(f"--generation {question.generation}: {metric} is of generations of its own")
    return [_compare(metric, question) for metric in metrics]


def _compare(metric: str, question: Question) -> Comparison:
    sides = [values.read(metric, paths, question.settings, question.generation) for paths in _paths(question)]
    everything = [value for side in sides for value in side]
    _check(everything)
    if metric.startswith(values.AFTER):
        _check_direction(everything)
    kinds = _kinds(sides)
    # Each kind of the first set against each of the second, then the kinds of the first against each other.
    first, second = ([kind.group for kind in kinds if kind.side == side] for side in (0, 1))
    pairs = [(a, b) for a in first for b in second]
    pairs += [(a, b) for place, a in enumerate(first) for b in first[place + 1 :]]
    tests = compare(pairs, question.alternative)
    notes = [*_left_out(metric, question, everything), *_notes(metric, everything), *_too_few(tests)]
    return Comparison(metric, values.about(metric), kinds, tests, notes)


def _paths(question: Question) -> tuple[Sequence[Path], Sequence[Path]]:
    for paths, what in ((question.first, "RUN.h5 ... --against"), (question.second, "--against RUN.h5 ...")):
        if not paths:
            raise ConfigError(f"compare: expected files on both sides of --against; {what} has none")
    return question.first, question.second


def _kinds(sides: list[list[Value]]) -> list[Kind]:
    """Sort each set by label; a label that both sets have is told apart."""
    both = {value.label for value in sides[0]} & {value.label for value in sides[1]}
    kinds = []
    for side, members in enumerate(sides):
        for label in dict.fromkeys(value.label for value in members):
            own = [value for value in members if value.label == label]
            name = f"{label} ({('first set', 'against')[side]})" if label in both else label
            group = Group(name, np.array([value.value for value in own]))
            kinds.append(Kind(summarize(group), group, side, own))
    return kinds


def _check(everything: list[Value]) -> None:
    """Refuse files that cannot be compared: one run twice, or runs of different tasks."""
    seen: dict[str, Value] = {}
    for value in everything:
        if value.run_id in seen:
            raise ConfigError(f"{seen[value.run_id].path} and {value.path} are of the same run; give only one of them")
        seen[value.run_id] = value
    one = everything[0]
    for other in everything:
        for key in ("name", "env", "behavior"):
            if one.task.get(key) != other.task.get(key):
                raise RunFileError(
                    f"{one.path} and {other.path} are of different tasks: "
                    f"task.{key} is {one.task.get(key)!r} and {other.task.get(key)!r}"
                )
    wanted = {direction for value in everything for direction in value.directions}
    for value in everything:
        for direction in sorted(wanted - set(value.directions)):
            raise RunFileError(
                f"{value.path}: its run was not adapted in direction {direction:g}, as others were; "
                f"ees-mpi adapt RUN.h5 --direction {direction:g}"
            )


def _check_direction(everything: list[Value]) -> None:
    """Refuse runs that were to go in different directions: how far each got is not the same thing."""
    one = everything[0]
    for other in everything:
        wanted = [float(value.task.get("direction", 0.0)) for value in (one, other)]
        if wanted[0] % 360 != wanted[1] % 360:
            raise RunFileError(
                f"{one.path} and {other.path} were to go in different directions: "
                f"task.direction is {wanted[0]:g} and {wanted[1]:g}"
            )


def _left_out(metric: str, question: Question, everything: list[Value]) -> list[str]:
    """Say that a pattern of names caught more than run files."""
    more = len(question.first) + len(question.second) - len(everything)
    return [f"{more} adaptation files were left out"] if more and metric != "adaptation" else []


def _notes(metric: str, everything: list[Value]) -> list[str]:
    """Say what a reader should know before believing the table."""
    notes = []
    running = [value for value in everything if not value.complete]
    if running:
        notes.append(f"{len(running)} of {len(everything)} runs are not complete: {running[0].path}, for one")
    # MAML counts other generations than the rest.
    reached = sorted({value.generation for value in everything if value.label != ALGORITHMS["maml"]})
    if len(reached) > 1:
        notes.append(f"the runs are at different generations, {reached[0]} to {reached[-1]}; see --generation")
    sizes = sorted({value.size for value in everything})
    if len(sizes) > 1:
        more = ": more individuals visit more cells" if metric == "coverage" else ""
        notes.append(f"the runs have different numbers of individuals, {sizes[0]} to {sizes[-1]}{more}")
    keys = {key for value in everything for key in value.task} - set(BESIDE_THE_POINT)
    for key in sorted(keys):
        found = {repr(value.task.get(key)) for value in everything}
        if len(found) > 1:
            notes.append(f"the runs differ in task.{key}: {', '.join(sorted(found))}")
    return notes


def _too_few(tests: list[Test]) -> list[str]:
    return [
        f"{test.first} against {test.second}: with so few runs p cannot be below {test.least:.2g}"
        for test in tests
        if test.least > REACHABLE
    ]
