"""Tests between groups of runs, one number per run: Mann-Whitney U, as in the paper; medians, effect sizes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ees_mpi.arrays import Floats
from ees_mpi.errors import scipy_stats

RESAMPLES = 10_000
FEWEST = 6  # runs for an interval: even the whole range of 5 contains the median in only 94 of 100 cases
EXACT = 50  # p is exact for groups of at most this many runs
WAYS = 20_000  # to divide tied values into two groups that are all tried, at most


@dataclass(frozen=True)
class Group:
    """The numbers of the runs that have one label."""

    label: str
    values: Floats  # [n]
    members: Sequence[Any] = ()  # the runs


@dataclass(frozen=True)
class Test:
    """The first group against the second."""

    first: str
    second: str
    u: float  # pairs in which the first is larger; equal values count half
    p: float
    exact: bool
    holm: float  # p after Holm's correction for the number of tests
    effect: float  # u over all pairs: P(a run of the first is larger than one of the second) (A of Vargha, Delaney)
    ratio: float  # of the means; NaN unless both are above 0, and for numbers without a zero, such as entropies
    difference: float  # of the means


def summarize(group: Group) -> dict[str, Any]:
    """Return a group in a few numbers.

    low, high: the bootstrap interval of the median, NaN for fewer than 6 runs; std: of the runs, with n - 1
    """
    values = group.values
    low, high = interval(values)
    facts = {"label": group.label, "runs": len(values), "median": float(np.median(values)), "low": low, "high": high}
    return facts | {"mean": float(values.mean()), "std": float(values.std(ddof=1)) if len(values) > 1 else math.nan}


def interval(values: Floats) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the median, with fixed resamples; NaN for too few runs."""
    if len(values) < FEWEST:
        return math.nan, math.nan
    found = scipy_stats().bootstrap((values,), np.median, n_resamples=RESAMPLES, method="percentile", rng=0)
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def compare(pairs: Sequence[tuple[Group, Group]]) -> list[Test]:
    """Test the first of each pair against the second."""
    tests = []
    for first, second in pairs:
        a, b = first.values, second.values
        u, p, exact = mann_whitney(a, b)
        means = float(a.mean()), float(b.mean())
        ratio = means[0] / means[1] if min(means) > 0 else math.nan
        of_means = u / (len(a) * len(b)), ratio, means[0] - means[1]
        tests.append(Test(first.label, second.label, u, p, exact, p, *of_means))
    return [replace(test, holm=p) for test, p in zip(tests, holm([test.p for test in tests]), strict=True)]


def mann_whitney(a: Floats, b: Floats) -> tuple[float, float, bool]:
    """Return U of the first group, the two-sided p, and whether p is exact.

    It is exact for groups of up to 50 runs without ties, and with ties if there are few ways to divide the values.
    """
    stats, both = scipy_stats(), np.concatenate([a, b])
    ties = len(np.unique(both)) < len(both)
    exact = math.comb(len(both), len(a)) <= WAYS if ties else max(len(a), len(b)) <= EXACT
    method = "asymptotic" if not exact else stats.PermutationMethod(n_resamples=WAYS) if ties else "exact"
    if len(np.unique(both)) == 1:  # the variance of U is 0
        return len(a) * len(b) / 2, 1.0, True
    single = ties and min(len(a), len(b)) == 1  # scipy permutes two runs or more
    found = stats.mannwhitneyu(a, b, method="asymptotic" if single else method)
    if single:
        one = (a if len(a) == 1 else b)[0]
        return float(found.statistic), min(1.0, 2 * float(min((both >= one).mean(), (both <= one).mean()))), True
    return float(found.statistic), float(found.pvalue), exact


def holm(p: Sequence[float]) -> list[float]:
    """Correct several p values (Holm 1979): the smallest times their number, the next times one less, ..."""
    order, corrected = np.argsort(p), np.empty(len(p))
    scaled = np.sort(p) * np.arange(len(p), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return list(map(float, corrected))
