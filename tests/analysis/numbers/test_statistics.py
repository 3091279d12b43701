"""The statistics, beside scipy, enumeration and worked examples."""

import itertools

import numpy as np
import pytest
import scipy.stats

from ees_mpi.analysis.numbers.statistics import compare, holm, interval, mann_whitney

A = np.array([4.1, 6.3, 5.2, 9.9, 7.7])
B = np.array([1.0, 4.4, 2.2, 5.0])


def numbers(seed: int, size: int, ties: bool) -> np.ndarray:
    values = np.random.default_rng(seed).normal(seed % 3, 2, size)
    return np.round(values) if ties else values


@pytest.mark.parametrize(
    ("sizes", "ties", "exact"), [((12, 12), False, True), ((60, 70), False, False), ((12, 12), True, False)]
)
def test_p_is_exact_for_few_runs_and_not_for_many_or_ties(sizes: tuple[int, int], ties: bool, exact: bool) -> None:
    a, b = numbers(1, sizes[0], ties), numbers(2, sizes[1], ties)
    reference = scipy.stats.mannwhitneyu(a, b, method="exact" if exact else "asymptotic")
    assert mann_whitney(a, b) == (reference.statistic, reference.pvalue, exact)


@pytest.mark.parametrize("ties", [False, True])
def test_an_exact_p_is_the_share_of_all_ways_to_divide_the_values(ties: bool) -> None:
    a, b = (np.round(A / 2), np.round(B / 2)) if ties else (A, B)
    u, p, exact = mann_whitney(a, b)
    both = np.concatenate([a, b])
    wins = [
        sum((x > y) + (x == y) / 2 for x in both[list(first)] for y in np.delete(both, first))
        for first in itertools.combinations(range(len(both)), len(a))
    ]
    assert exact and u == sum((x > y) + (x == y) / 2 for x in a for y in b)
    assert p == pytest.approx(2 * min(np.mean([w >= u for w in wins]), np.mean([w <= u for w in wins])))


def test_effect_and_ratio_are_the_share_of_won_pairs_and_the_ratio_of_means() -> None:
    (test,) = compare({"a": A, "b": B}, [("a", "b")])
    assert test["effect"] == np.mean([[1.0 if x > y else 0.5 if x == y else 0.0 for y in B] for x in A])
    assert test["ratio"] == A.mean() / B.mean() and test["holm"] == test["p"]


def test_one_run_with_a_tie_and_groups_that_are_all_alike_have_an_exact_p_too() -> None:
    assert mann_whitney(np.ones(3), np.ones(4)) == (6.0, 1.0, True)
    assert mann_whitney(np.zeros(1), np.array([0.9, 0.0, 1.0])) == (0.5, 1.0, True)
    assert mann_whitney(np.array([0.9, 0.9, 1.0]), np.zeros(1)) == (3.0, 0.5, True)


def test_the_interval_of_the_median_is_the_same_every_time() -> None:
    values = numbers(5, 12, ties=False)
    low, high = interval(values)
    assert interval(values) == (low, high) and values.min() <= low <= np.median(values) <= high <= values.max()


def test_five_runs_are_too_few_for_an_interval_and_six_are_not() -> None:
    assert (
        np.isnan(interval(numbers(5, 5, ties=False))).all() and np.isfinite(interval(numbers(5, 6, ties=False))).all()
    )


def test_p_values_are_corrected_by_holms_method() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.5]) == [1.0, 1.0] and holm([]) == []
