"""Tests and verdicts on heritability, on numbers that were made up."""

import math

import numpy as np
import pytest
import rules
from rules import paired_ratio


def test_pairs_are_compared_seed_by_seed() -> None:
    from scipy.stats import ttest_1samp

    first, second = [2.0, 20.0, 210.0], [1.0, 11.0, 100.0]
    found, logs = paired_ratio(first, second), np.log(first) - np.log(second)
    interval = ttest_1samp(logs, 0).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert found.low > 1  # although the unpaired groups overlap


@pytest.mark.parametrize(
    ("fixed", "own", "verdict"),
    [
        ([1, 2, 3, 4, 5, 6], [6, 7, 8, 9, 10, 11], "holds"),
        ([1, 2, 3, 4, 5, 6], [18, 19, 20, 21, 22, 23], "undecided"),
        ([1, 2, 3, 4, 5, 6], [31, 32, 33, 34, 35, 36], "fails"),
    ],
)
def test_four_starts_must_exceed_both_controls(fixed: list[float], own: list[float], verdict: str) -> None:
    assert rules.above_verdict([20.5, 21.5, 22.5, 19.5, 18.5, 24.5], fixed, own) == verdict
