"""The rules of the second, the fourth and the fifth plan, on numbers that were made up."""

import math

import numpy as np
import pytest
import rules
from rules import FAILS, HOLDS, UNDECIDED, Interval, paired_ratio


def test_pairs_are_compared_seed_by_seed() -> None:
    from scipy.stats import ttest_1samp

    first, second = [2.0, 20.0, 210.0], [1.0, 11.0, 100.0]
    found, logs = paired_ratio(first, second), np.log(first) - np.log(second)
    interval = ttest_1samp(logs, 0).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert found.low > 1  # although the unpaired groups overlap


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.86, 0.99, HOLDS),
        (0.85, 1.00, HOLDS),
        (0.70, 0.84, FAILS),
        (1.01, 1.20, FAILS),
        (0.80, 0.95, UNDECIDED),
        (0.90, 1.05, UNDECIDED),
        (0.60, 1.30, UNDECIDED),
    ],
)
def test_the_interval_decides_the_primary_claim(low: float, high: float, verdict: str) -> None:
    assert rules.distance_verdict(Interval((low * high) ** 0.5, low, high)) == verdict


def test_standard_es_is_further_only_if_p_is_small_in_that_direction() -> None:
    near, far = list(np.linspace(38, 40, 12)), list(np.linspace(44, 46, 12))
    assert rules.mann_whitney(near, far) == (pytest.approx(7.4e-7, rel=0.01), False)
    assert (rules.further_verdict(near, far), rules.further_verdict(far, near)) == (HOLDS, FAILS)
    assert rules.further_verdict(near, [each + 0.01 for each in near]) == UNDECIDED


def test_the_power_is_that_of_the_spread() -> None:
    near, wide = ([math.exp(spread * (-1) ** k) for k in range(12)] for spread in (0.02, 0.3))
    assert rules.power(near, near, tries=500) > 0.95 and rules.power(wide, wide, tries=500) < 0.05


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
