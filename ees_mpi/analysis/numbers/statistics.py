"""Tests between groups of runs, one number per run: Mann-Whitney U, as in the paper; medians, effect sizes."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ees_mpi.arrays import Floats
from ees_mpi.errors import scipy_stats

RESAMPLES = 10_000
FEWEST = 6  # runs for an interval: even the whole range of 5 contains the median in only 94 of 100 cases
EXACT = 50  # p is exact for groups of at most this many runs
WAYS = 20_000  # to divide tied values into two groups that are all tried, at most


def summarize(values: Floats) -> dict[str, Any]:
    """Return a group of runs in a few numbers.

    low, high: the bootstrap interval of the median, NaN for fewer than 6 runs; std: of the runs, with n - 1
    """
    low, high = interval(values)
    facts = {"runs": len(values), "median": float(np.median(values)), "low": low, "high": high}
    return facts | {"mean": float(values.mean()), "std": float(values.std(ddof=1)) if len(values) > 1 else math.nan}


def interval(values: Floats) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the median, with fixed resamples; NaN for too few runs."""
    if len(values) < FEWEST:
        return math.nan, math.nan
    found = scipy_stats().bootstrap((values,), np.median, n_resamples=RESAMPLES, method="percentile", rng=0)
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def compare(groups: Mapping[str, Floats], pairs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Test the first of each pair of groups against the second.

    u: pairs of runs in which the first is larger, equal values count half; holm: p after Holm's correction for the
    number of tests; effect: u over all pairs (A of Vargha and Delaney); ratio of the means: NaN unless both are above 0
    """
    tests = []
    for first, second in pairs:
        a, b = groups[first], groups[second]
        u, p, exact = mann_whitney(a, b)
        means = float(a.mean()), float(b.mean())
        test: dict[str, Any] = {"first": first, "second": second, "u": u, "p": p, "exact": exact, "holm": p}
        ratio = means[0] / means[1] if min(means) > 0 else math.nan
        tests.append(test | {"effect": u / (len(a) * len(b)), "ratio": ratio, "difference": means[0] - means[1]})
    corrected = holm([test["p"] for test in tests])
    return [test | {"holm": p} for test, p in zip(tests, corrected, strict=True)]


def mann_whitney(a: Floats, b: Floats) -> tuple[float, float, bool]:
    """Return U of the first group, the two-sided p, and whether p is exact.

    It is exact for groups of up to 50 runs without ties, and with ties if there are few ways to divide the values.
    """
    stats, both = scipy_stats(), np.concatenate([a, b])
    if len(np.unique(both)) == 1:  # the variance of U is 0
        return len(a) * len(b) / 2, 1.0, True
    if len(np.unique(both)) == len(both):
        exact = max(len(a), len(b)) <= EXACT
        method = "exact" if exact else "asymptotic"
    else:
        exact = math.comb(len(both), len(a)) <= WAYS
        method = stats.PermutationMethod(n_resamples=WAYS) if exact and min(len(a), len(b)) > 1 else "asymptotic"
    found = stats.mannwhitneyu(a, b, method=method)
    p = float(found.pvalue)
    if exact and method == "asymptotic":  # scipy permutes two runs or more
        one = (a if len(a) == 1 else b)[0]
        p = min(1.0, 2 * float(min((both >= one).mean(), (both <= one).mean())))
    return float(found.statistic), p, exact


def holm(p: Sequence[float]) -> list[float]:
    """Correct several p values (Holm 1979): the smallest times their number, the next times one less, ..."""
    order, corrected = np.argsort(p), np.empty(len(p))
    scaled = np.sort(p) * np.arange(len(p), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return list(map(float, corrected))
