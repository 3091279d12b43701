"""Verdicts on claims: Mann-Whitney U, Welch's TOST on logarithms, Holm within a claim."""

import math
import sys

import numpy as np
import pytest
from scipy import stats
from support.program import CHECKOUT

from ees_mpi.analysis.numbers.statistics import Group
from ees_mpi.errors import ConfigError

sys.path.insert(0, str(CHECKOUT / "jobs" / "paper"))  # the scripts import each other by name

from verdicts import FAILS, HOLDS, OPEN, Question, judge, overall, welch

WIDE = np.array([0.5, 0.8, 1.2, 1.9, 2.6, 3.5])
LOW, HIGH = np.array([1.0, 1.1, 1.2, 1.3, 1.4, 1.5]), np.array([2.0, 2.1, 2.2, 2.3, 2.4, 2.5])


def ask(first: np.ndarray, relation: str, second: np.ndarray) -> Question:
    return Question(Group("first", first), Group("second", second), relation)


def test_tost_and_its_interval_agree_with_scipys_welch_test_on_logarithms() -> None:
    generator = np.random.default_rng(0)
    for shift, sizes in ((0.0, (6, 6)), (0.1, (6, 4)), (-0.3, (12, 5)), (0.5, (3, 9))):
        a, b = np.exp(generator.normal(shift, 0.1, sizes[0])), np.exp(generator.normal(0, 0.2, sizes[1]))
        found = welch(a, b)
        one_sided = [
            stats.ttest_ind(np.log(a) - math.log(0.8), np.log(b), equal_var=False, alternative="greater").pvalue,
            stats.ttest_ind(np.log(a) - math.log(1.25), np.log(b), equal_var=False, alternative="less").pvalue,
        ]
        assert found.p == pytest.approx(max(one_sided), rel=1e-9)
        interval = stats.ttest_ind(np.log(a), np.log(b), equal_var=False).confidence_interval(0.9)
        assert (found.low, found.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)), rel=1e-9)
        assert (found.p < 0.05) == (found.low > 0.8 and found.high < 1.25)


def test_numbers_that_are_not_positive_are_compared_by_their_difference_and_show_no_equality() -> None:
    found = welch(LOW - 1, LOW - 1)
    assert not found.is_ratio and found.p == 1.0 and found.value == 0.0 and found.low < 0 < found.high
    assert math.isnan(welch(LOW[:1], HIGH).value)


@pytest.mark.parametrize(
    ("first", "relation", "second", "verdict"),
    [
        (HIGH, "above", LOW, HOLDS),
        (LOW, "below", HIGH, HOLDS),
        (LOW, "above", HIGH, FAILS),
        (WIDE * 1.1, "above", WIDE, OPEN),  # the spread is too wide to show that they do not differ
        (100 + LOW, "above", 100 + LOW + 0.01, FAILS),  # a difference is claimed, equality is shown
        (100 + LOW, "equal", 100 + LOW + 0.01, HOLDS),
        (HIGH, "equal", LOW, FAILS),
        (WIDE * 1.1, "equal", WIDE, OPEN),
    ],
)
def test_a_question_gets_the_verdict_of_the_plan(
    first: np.ndarray, relation: str, second: np.ndarray, verdict: str
) -> None:
    (answer,) = judge([ask(first, relation, second)])
    assert answer.verdict == verdict


def test_six_against_six_that_are_all_larger_have_the_known_p_and_holm_multiplies_it() -> None:
    assert judge([ask(HIGH, "above", LOW)])[0].p == pytest.approx(2 / math.comb(12, 6))
    both = judge([ask(HIGH, "above", LOW), ask(HIGH + 0.001, "above", LOW)])
    assert [answer.p for answer in both] == pytest.approx([4 / math.comb(12, 6)] * 2)
    four = judge([ask(HIGH[:4], "above", LOW[:4])] * 2)
    assert four[0].test.p == pytest.approx(2 / math.comb(8, 4)) and overall(four) == OPEN  # 0.029 twice is 0.057


def test_a_claim_holds_if_all_of_its_tests_hold_and_fails_if_one_fails() -> None:
    good, bad, open_ = ask(HIGH, "above", LOW), ask(LOW, "above", HIGH), ask(WIDE * 1.1, "above", WIDE)
    assert overall(judge([good, good])) == HOLDS
    assert overall(judge([good, open_])) == OPEN
    assert overall(judge([good, open_, bad])) == FAILS


def test_an_unknown_relation_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected one of above, below, equal"):
        judge([ask(LOW, "over", HIGH)])
