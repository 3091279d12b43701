"""The first plan: Mann-Whitney U, Welch's TOST on logarithms, Holm within a claim; verdicts that wait for all seeds."""

import math

import first_plan as plan
import numpy as np
import pytest
from first_plan import FAILS, HOLDS, OPEN, judge, overall
from rules import ratio
from scipy import stats

from ees_mpi.analysis.numbers.statistics import Group

WIDE = np.array([0.5, 0.8, 1.2, 1.9, 2.6, 3.5])
LOW, HIGH = np.array([1.0, 1.1, 1.2, 1.3, 1.4, 1.5]), np.array([2.0, 2.1, 2.2, 2.3, 2.4, 2.5])


def ask(first: np.ndarray, relation: str, second: np.ndarray) -> plan.Question:
    return plan.Question("", Group("first", first), relation, Group("second", second))


def test_tost_and_its_interval_agree_with_scipys_welch_test_on_logarithms() -> None:
    generator = np.random.default_rng(0)
    for shift, sizes in ((0.0, (6, 6)), (0.1, (6, 4)), (-0.3, (12, 5)), (0.5, (3, 9))):
        a, b = np.exp(generator.normal(shift, 0.1, sizes[0])), np.exp(generator.normal(0, 0.2, sizes[1]))
        found = ratio(a, b)
        one_sided = [
            stats.ttest_ind(np.log(a) - math.log(0.8), np.log(b), equal_var=False, alternative="greater").pvalue,
            stats.ttest_ind(np.log(a) - math.log(1.25), np.log(b), equal_var=False, alternative="less").pvalue,
        ]
        assert found.p_equal == pytest.approx(max(one_sided), rel=1e-9)
        assert found.value == pytest.approx(stats.gmean(a) / stats.gmean(b))
        interval = stats.ttest_ind(np.log(a), np.log(b), equal_var=False).confidence_interval(0.9)
        assert (found.low, found.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)), rel=1e-9)
        assert (found.p_equal < 0.05) == (found.low > 0.8 and found.high < 1.25)


@pytest.mark.parametrize(
    ("first", "relation", "second", "verdict"),
    [
        (HIGH, ">", LOW, HOLDS),
        (LOW, "<", HIGH, HOLDS),
        (LOW, ">", HIGH, FAILS),
        (WIDE * 1.1, ">", WIDE, OPEN),  # the spread is too wide to show that they do not differ
        (100 + LOW, ">", 100 + LOW + 0.01, FAILS),  # a difference is claimed, equality is shown
        (100 + LOW, "=", 100 + LOW + 0.01, HOLDS),
        (HIGH, "=", LOW, FAILS),
        (WIDE * 1.1, "=", WIDE, OPEN),
    ],
)
def test_questions_get_the_planned_verdict(first: np.ndarray, relation: str, second: np.ndarray, verdict: str) -> None:
    (answer,) = judge([ask(first, relation, second)])
    assert answer.verdict == verdict


def test_six_against_six_that_are_all_larger_have_the_known_p_and_holm_multiplies_it() -> None:
    assert judge([ask(HIGH, ">", LOW)])[0].test.holm == pytest.approx(2 / math.comb(12, 6))
    both = judge([ask(HIGH, ">", LOW), ask(HIGH + 0.001, ">", LOW)])
    assert [answer.test.holm for answer in both] == pytest.approx([4 / math.comb(12, 6)] * 2)
    four = judge([ask(HIGH[:4], ">", LOW[:4])] * 2)
    assert four[0].test.p == pytest.approx(2 / math.comb(8, 4)) and overall(four) == OPEN  # 0.029 twice is 0.057
