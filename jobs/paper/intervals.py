"""Ratios of two groups of runs with their 90 % intervals, from logarithms: Welch's t, and Student's t of pairs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import ttest_1samp, ttest_ind

from ees_mpi.outcomes import Floats

LEVEL = 0.05
MARGIN = (0.8, 1.25)  # ratios between these count as no difference


@dataclass(frozen=True)
class Interval:
    """A ratio of geometric means with its 90 % interval; without one for single runs."""

    value: float
    low: float = math.nan
    high: float = math.nan
    runs: int = 0  # of the first group
    p_equal: float = 1.0  # of Welch's two one-sided tests (TOST): is the ratio inside the margin?
    is_ratio: bool = True  # else the difference of the means, because a number is not above 0

    def __str__(self) -> str:
        """Return the ratio and the interval as the page shows them."""
        if math.isnan(self.value):
            return "-"
        return f"{self.value:.2f}" if math.isnan(self.low) else f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def ratio(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> Interval:
    """Compare two groups by Welch's t: their ratio, or their difference if a number is not above 0."""
    if not (len(first) and len(second)):
        return Interval(math.nan)
    positive = min(*first, *second) > 0
    a, b = (np.log(each) if positive else np.asarray(each) for each in (first, second))
    back = math.exp if positive else float
    value, p = back(a.mean() - b.mean()), 1.0
    if min(len(a), len(b)) < 2:
        return Interval(value, runs=len(a), is_ratio=positive)
    low, high = ttest_ind(a, b, equal_var=False).confidence_interval(1 - 2 * LEVEL)
    if positive:
        sides = zip(np.log(MARGIN), ("greater", "less"), strict=True)
        p = max(ttest_ind(a - limit, b, equal_var=False, alternative=side).pvalue for limit, side in sides)
    return Interval(value, back(low), back(high), len(a), float(p), positive)


def paired_ratio(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Return the geometric mean of the ratios of pairs, with the interval of Student's t."""
    logs = np.log(first) - np.log(second)
    if len(logs) < 2:
        return Interval(math.exp(logs[0]) if len(logs) else math.nan, runs=len(logs))
    low, high = ttest_1samp(logs, 0).confidence_interval(1 - 2 * LEVEL)
    return Interval(math.exp(logs.mean()), math.exp(low), math.exp(high), len(logs))
