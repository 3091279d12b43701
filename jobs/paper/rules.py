"""Tests, and ratios with their 90 % intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import ttest_1samp, ttest_ind

from ees_mpi.analysis.numbers import statistics

LEVEL = 0.05


@dataclass(frozen=True)
class Interval:
    """A ratio of geometric means with its 90 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the ratio and the interval as the page shows them."""
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def ratio(first: Sequence[float], second: Sequence[float], paired: bool = False) -> Interval:
    """Return the ratio of geometric means of two groups, or of pairs, with the interval of t of the logarithms.

    The t is that of Welch, and of pairs that of Student.
    """
    a, b = np.log(first), np.log(second)
    test = ttest_1samp(a - b, 0) if paired else ttest_ind(a, b, equal_var=False)
    low, high = test.confidence_interval(1 - 2 * LEVEL)
    return Interval(math.exp(a.mean() - b.mean()), math.exp(low), math.exp(high))


def mann_whitney(first: Sequence[float], second: Sequence[float]) -> tuple[float, bool]:
    """Return the two-sided p, and whether the first group lies above the second."""
    u, p, _ = statistics.mann_whitney(np.asarray(first), np.asarray(second))
    return p, u > len(first) * len(second) / 2
