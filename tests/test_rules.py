"""Ratios of pairs, on numbers that were made up."""

import math

import numpy as np
import pytest
from rules import paired_ratio


def test_pairs_are_compared_seed_by_seed() -> None:
    from scipy.stats import ttest_1samp

    first, second = [2.0, 20.0, 210.0], [1.0, 11.0, 100.0]
    found, logs = paired_ratio(first, second), np.log(first) - np.log(second)
    interval = ttest_1samp(logs, 0).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert found.low > 1  # although the unpaired groups overlap
