"""The first plan: Mann-Whitney U, Welch's TOST on logarithms, Holm within a claim; verdicts that wait for all seeds."""

import math
from typing import Any

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


def test_numbers_that_are_not_positive_are_compared_by_their_difference_and_show_no_equality() -> None:
    found = ratio(LOW - 1, LOW - 1)
    assert not found.is_ratio and found.p_equal == 1.0 and found.value == 0.0 and found.low < 0 < found.high
    assert math.isnan(ratio(LOW[:1], HIGH).low)


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


def test_a_claim_holds_if_all_of_its_tests_hold_and_fails_if_one_fails() -> None:
    good, bad, open_ = ask(HIGH, ">", LOW), ask(LOW, ">", HIGH), ask(WIDE * 1.1, ">", WIDE)
    assert overall(judge([good, good])) == HOLDS
    assert overall(judge([good, open_])) == OPEN
    assert overall(judge([good, open_, bad])) == FAILS


FACTS = {"robot": "ant", "engine": "mujoco", "rules": "text", "kind": "training", "direction": "0", "std": "0.02"}
FACTS |= {"generations": "30", "population": "10000", "run": "", "start": "random", "first_steps": "full"}


def row(algorithm: str, seed: int, facts: dict[str, str], **numbers: float) -> plan.Row:
    """Return a row of numbers.csv."""
    return {**FACTS, "algorithm": algorithm, "seed": f"{seed}", **facts, **{k: f"{v}" for k, v in numbers.items()}}


def ants(seeds: int, **facts: str) -> list[plan.Row]:
    """Return runs in which EES spreads more than standard ES, and goes half as far."""
    groups = (("standard ES", 0.3, 20.0), ("MaxVar", 0.8, 10.0), ("MaxEnt", 0.9, 10.1))
    return [
        row(name, seed, facts, uniformity_20_29=uniform + 0.001 * seed, distance_20_29=distance + 0.001 * seed)
        for name, uniform, distance in groups
        for seed in range(seeds)
    ]


def verdicts(rows: list[plan.Row]) -> dict[str, str]:
    return {each.claim["name"]: each.verdict for each in plan.examine(rows)}


def test_claims_are_decided_when_all_seeds_have_run() -> None:
    found = verdicts(ants(6))
    assert [found[name] for name in ("ant-directions", "ant-distance", "ant-equal")] == ["holds"] * 3
    assert found["ant-origin"] == found["cheetah-sides"] == "not run"
    assert verdicts(ants(5))["ant-directions"] == "not decided (5 of 6 runs)"


@pytest.mark.parametrize("other", [{"rules": "released"}, {"engine": "bullet"}, {"population": "600"}])
def test_runs_of_other_rules_engines_and_sizes_are_not_counted(other: dict[str, Any]) -> None:
    assert set(verdicts(ants(6, **other)).values()) == {"not run"}


def test_the_endpoint_is_the_mean_over_generations_20_to_29_or_over_the_last_ten_of_a_shorter_run() -> None:
    late = row("MaxEnt", 0, {}, distance_20_29=20.0, distance_last_10=99.0, distance_last=5.0)
    short = row("MaxEnt", 0, {}, distance_last_10=7.0, distance_last=5.0)
    assert [plan.value(each, "distance_mean") for each in (late, short)] == [20.0, 7.0]


def test_seeding_compares_runs_with_the_gentle_rule_only() -> None:
    rows = []
    groups = (("MaxVar", "gentle", 5.0), ("MaxEnt", "gentle", 6.0), ("random", "gentle", 1.0), ("random", "full", 99.0))
    for start, rule, x in groups:
        facts = {"kind": "seeding", "start": start, "first_steps": rule, "generations": "21"}
        for seed in range(6):
            after = {f"x_{updates}": updates * (x + 0.01 * seed) for updates in (5, 10, 20)}
            rows.append(row("standard ES", seed, facts, **after))
    (found,) = (each for each in plan.examine(rows) if each.claim["name"] == "ant-seeding")
    assert found.verdict == "holds" and len(found.answers) == 6
    assert np.isclose(found.groups["after 5 adapt-gentle"].values[0], 5.0)
    assert "after 20: from MaxVar" in plan.claim_table([found]) and "| holds |" in plan.all_tests([found])
