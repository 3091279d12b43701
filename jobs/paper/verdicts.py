"""Verdicts on claims about groups of runs: a difference, or that two groups do not differ.

A difference is tested by Mann-Whitney U, two-sided. That two groups do not differ is tested by Welch's two one-sided
tests (TOST; Schuirmann 1987) on the logarithms of the numbers: is their ratio inside the margin? Holm's correction runs
over the tests of one claim. `docs reproduce` has the rules, which were fixed before the runs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ees_mpi.analysis.numbers.statistics import Group, Test, compare, holm
from ees_mpi.errors import ConfigError, MissingExtra
from ees_mpi.outcomes import Floats

LEVEL = 0.05
MARGIN = (0.8, 1.25)  # ratios between these count as no difference
RELATIONS = ("above", "below", "equal")
HOLDS, FAILS, OPEN = "holds", "does not hold", "not decided"


@dataclass(frozen=True)
class Equivalence:
    """Welch's comparison of two groups: by their ratio, or by their difference if a number is not above 0."""

    p: float  # of the two one-sided tests; 1 for differences
    value: float  # the ratio of the geometric means, or the difference of the means
    low: float  # the 90 % interval, which lies inside the margin if p < 0.05
    high: float
    is_ratio: bool


@dataclass(frozen=True)
class Question:
    """A test of a claim: the first group is expected above the second, below it, or equal to it."""

    first: Group
    second: Group
    relation: str


@dataclass(frozen=True)
class Answer:
    """The tests of a question, and its verdict; all p are after Holm's correction."""

    question: Question
    test: Test
    equivalence: Equivalence
    p: float  # of Mann-Whitney U
    p_equal: float  # of TOST
    verdict: str


def welch(first: Floats, second: Floats, margin: tuple[float, float] = MARGIN) -> Equivalence:
    """Compare two groups of at least two numbers each."""
    if min(len(first), len(second)) < 2:
        return Equivalence(1.0, math.nan, math.nan, math.nan, True)
    positive = min(first.min(), second.min()) > 0
    a, b = (np.log(first), np.log(second)) if positive else (first, second)
    parts = [float(each.var(ddof=1)) / len(each) for each in (a, b)]
    difference, error = float(a.mean() - b.mean()), math.sqrt(sum(parts))
    freedom = 1.0
    if error > 0:
        freedom = sum(parts) ** 2 / sum(part**2 / (len(each) - 1) for part, each in zip(parts, (a, b), strict=True))
    limits = [math.log(limit) for limit in margin]
    distances = (difference - limits[0], limits[1] - difference)  # from the lower and to the upper limit
    p = max(_upper_tail(distance, error, freedom) for distance in distances) if positive else 1.0
    half = error * _quantile(1 - LEVEL, freedom)
    ends = [difference, difference - half, difference + half]
    value, low, high = (math.exp(end) for end in ends) if positive else ends
    return Equivalence(p, value, low, high, positive)


def judge(questions: Sequence[Question]) -> list[Answer]:
    """Answer the questions of one claim."""
    for question in questions:
        if question.relation not in RELATIONS:
            raise ConfigError(f"relation {question.relation!r}: expected one of {', '.join(RELATIONS)}")
    tests = compare([(question.first, question.second) for question in questions])
    equal = [welch(question.first.values, question.second.values) for question in questions]
    corrected = holm([each.p for each in equal])
    return [
        Answer(question, test, each, test.holm, p_equal, _verdict(question.relation, test, p_equal))
        for question, test, each, p_equal in zip(questions, tests, equal, corrected, strict=True)
    ]


def overall(answers: Sequence[Answer]) -> str:
    """Return the verdict on a claim: it holds if all of its tests hold, and not if one of them does not."""
    found = {answer.verdict for answer in answers}
    return FAILS if FAILS in found else HOLDS if found == {HOLDS} else OPEN


def _verdict(relation: str, test: Test, p_equal: float) -> str:
    differ, same = test.holm < LEVEL, p_equal < LEVEL
    if relation == "equal":
        return HOLDS if same else FAILS if differ else OPEN
    if differ and (test.effect > 0.5) == (relation == "above"):
        return HOLDS
    return FAILS if differ or same else OPEN


def _upper_tail(distance: float, error: float, freedom: float) -> float:
    """Return P(T > distance / error)."""
    if error == 0:
        return 0.0 if distance > 0 else 1.0
    return float(_student().sf(distance / error, freedom))


def _quantile(share: float, freedom: float) -> float:
    return float(_student().ppf(share, freedom))


def _student() -> Any:
    try:
        from scipy.stats import t
    except ImportError:
        raise MissingExtra("statistics need scipy: pip install 'ees_mpi[analysis]'") from None
    return t
