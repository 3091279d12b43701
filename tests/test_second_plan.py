"""The rules of the second plan, on numbers that were made up."""

import math

import numpy as np
import pytest
import second_plan as plan
from intervals import Interval, paired_ratio
from support.program import needs_results

pytestmark = needs_results


def row(algorithm: str, seed: int, distance: float, robot: str = "cheetah", **more: object) -> dict[str, str]:
    """Return a run of the plan as numbers.csv has it."""
    facts = {"robot": robot, "engine": "mujoco", "rules": "released", "changed": "", "algorithm": algorithm}
    facts |= {"kind": "training", "seed": f"{seed}", "generations": "100", "population": "10000", "run": f"r{seed}"}
    facts |= {
        "rollouts": "1",
        "starts": "fixed",
        "direction": "0" if algorithm == "standard ES" else "",
        "distance_90_99": f"{distance}",
    }
    return {**facts, **{name: f"{value}" for name, value in more.items()}}


def runs(share: float, seeds: range = plan.CHEETAHS, left: float = 0.4, right: float = 0.5) -> list[dict[str, str]]:
    """Return both groups of the cheetah; MaxEnt goes `share` as far, with a little spread."""
    spread = np.exp(0.05 * np.random.default_rng(0).standard_normal(2 * len(seeds)))
    pairs = zip(seeds, spread[::2], spread[1::2], strict=True)
    found = []
    for seed, one, other in pairs:
        found.append(row("standard ES", seed, 45 * one))
        found.append(row("MaxEnt", seed, share * 45 * other, left_90_99=left, right_90_99=right))
    return found


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
        (0.86, 0.99, plan.AGREES),
        (0.85, 1.00, plan.AGREES),
        (0.70, 0.84, plan.NOT),
        (1.01, 1.20, plan.NOT),
        (0.80, 0.95, plan.UNDECIDED),
        (0.90, 1.05, plan.UNDECIDED),
        (0.60, 1.30, plan.UNDECIDED),
    ],
)
def test_the_interval_decides_the_primary_claim(low: float, high: float, verdict: str) -> None:
    assert plan.distance_verdict(Interval((low * high) ** 0.5, low, high)) == verdict


def test_runs_with_a_property_are_counted() -> None:
    assert [plan.count_verdict(n, 12) for n in (10, 9, 7, 6)] == [plan.AGREES, *[plan.UNDECIDED] * 2, plan.NOT]
    assert [plan.count_verdict(n, 6) for n in (5, 4, 3, 2)] == [plan.AGREES, *[plan.UNDECIDED] * 2, plan.NOT]


def test_a_side_needs_a_quarter_of_all_offspring() -> None:
    shares = ((0.25, 0.7), (0.24, 0.76), (0.5, 0.1))
    assert [plan.has_sides({"left_x": f"{a}", "right_x": f"{b}"}, "_x") for a, b in shares] == [True, False, False]


def test_a_ring_has_every_sector_and_is_far_away() -> None:
    rings = ((3.0, 8.0), (2.0, 8.0), (1.0, 1.0))  # the last: untrained ants hardly move, in all directions
    assert [plan.has_ring({"ring_x": f"{a}", "distance_x": f"{b}"}, "_x") for a, b in rings] == [True, False, False]


def test_standard_es_is_further_only_if_p_is_small_in_that_direction() -> None:
    near, far = list(np.linspace(38, 40, 12)), list(np.linspace(44, 46, 12))
    assert plan.further_verdict(near, far) == (pytest.approx(7.4e-7, rel=0.01), plan.AGREES)
    assert plan.further_verdict(far, near)[1] == plan.NOT
    assert plan.further_verdict(near, [each + 0.01 for each in near])[1] == plan.UNDECIDED


def test_complete_runs_get_verdicts() -> None:
    found = plan.examine(runs(0.92))
    assert found["distance"].verdict == found["further"].verdict == found["sides"].verdict == plan.AGREES
    assert plan.examine(runs(0.6))["distance"].verdict == plan.NOT
    assert plan.examine(runs(0.92, left=0.1))["sides"].verdict == plan.NOT


def test_fewer_runs_than_planned_give_a_ratio_and_an_interval_but_no_verdict() -> None:
    found = plan.examine(runs(0.92, seeds=range(6, 12)))
    assert found["distance"].verdict == "no verdict (6 of 12 runs)" and "0.9" in found["distance"].found
    assert found["sides"].found == "6 of 6 runs" and found["sides"].verdict == "no verdict (6 of 12 runs)"
    assert found["ring"].verdict == found["cause"].verdict == "not run"


def test_runs_of_the_first_seeds_and_shorter_runs_do_not_count() -> None:
    early = [{**each, "seed": "0"} for each in runs(0.5)] + [{**each, "generations": "95"} for each in runs(0.5)]
    assert plan.examine([*runs(0.92), *early])["distance"] == plan.examine(runs(0.92))["distance"]


def test_the_ants_rings_are_counted() -> None:
    ants = [row("MaxEnt", seed, 9.0 + seed / 100, "ant", ring_90_99=4.0 if seed < 11 else 1.0) for seed in plan.SIX]
    assert plan.examine(ants)["ring"] == ("5 of 6 runs", plan.AGREES)


def test_ranks_are_the_cause_if_the_paired_interval_excludes_one() -> None:
    ranks = [row("MaxEnt", seed, 39.0 + seed / 10) for seed in plan.SIX]
    whitened = [row("MaxEnt", seed, 25.0 + seed, rules="other", changed=plan.WHITENED) for seed in plan.SIX]
    assert plan.examine([*ranks, *whitened])["cause"].verdict == "ranks are the cause"
    same = [{**each, "distance_90_99": f"{39.5 - (-1) ** int(each['seed'])}"} for each in whitened]
    assert plan.examine([*ranks, *same])["cause"].verdict == plan.UNDECIDED


def test_the_power_is_that_of_the_spread() -> None:
    near, wide = ([math.exp(spread * (-1) ** k) for k in range(12)] for spread in (0.02, 0.3))
    assert plan.power(near, near, tries=500) > 0.95 and plan.power(wide, wide, tries=500) < 0.05


def test_each_command_writes_its_own_file() -> None:
    lines = [line.split() for block in plan.blocks().values() for line in block]
    assert len({words[words.index("--out") + 1] for words in lines}) == len(lines) > 100
