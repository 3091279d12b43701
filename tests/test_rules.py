"""The rules of the second, the fourth and the fifth plan, on numbers that were made up."""

import math

import numpy as np
import page_tables as tables
import pytest
import rules
from rules import FAILS, HOLDS, UNDECIDED, Interval, paired_ratio


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


def runs(share: float, seeds: range = rules.CHEETAHS, left: float = 0.4, right: float = 0.5) -> list[dict[str, str]]:
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


def test_runs_with_a_property_are_counted() -> None:
    assert [rules.count_verdict(n, 12) for n in (10, 9, 7, 6)] == [HOLDS, UNDECIDED, UNDECIDED, FAILS]
    assert [rules.count_verdict(n, 6) for n in (5, 4, 3, 2)] == [HOLDS, UNDECIDED, UNDECIDED, FAILS]


def test_a_side_needs_a_quarter_of_all_offspring() -> None:
    shares = ((0.25, 0.7), (0.24, 0.76), (0.5, 0.1))
    assert [rules.has_sides({"left_x": f"{a}", "right_x": f"{b}"}, "_x") for a, b in shares] == [True, False, False]


def test_a_ring_has_every_sector_and_is_far_away() -> None:
    rings = ((3.0, 8.0), (2.0, 8.0), (1.0, 1.0))  # the last: untrained ants hardly move, in all directions
    assert [rules.has_ring({"ring_x": f"{a}", "distance_x": f"{b}"}, "_x") for a, b in rings] == [True, False, False]


def test_standard_es_is_further_only_if_p_is_small_in_that_direction() -> None:
    near, far = list(np.linspace(38, 40, 12)), list(np.linspace(44, 46, 12))
    assert rules.mann_whitney(near, far) == (pytest.approx(7.4e-7, rel=0.01), False)
    assert (rules.further_verdict(near, far), rules.further_verdict(far, near)) == (HOLDS, FAILS)
    assert rules.further_verdict(near, [each + 0.01 for each in near]) == UNDECIDED


def test_complete_runs_get_verdicts() -> None:
    found = rules.second_plan(runs(0.92))
    assert found["distance"] == found["further"] == found["sides"] == HOLDS
    assert rules.second_plan(runs(0.6))["distance"] == FAILS
    assert rules.second_plan(runs(0.92, left=0.1))["sides"] == FAILS


def test_fewer_runs_than_planned_give_no_verdict() -> None:
    found = rules.second_plan(runs(0.92, seeds=range(6, 12)))
    assert found["distance"] == found["further"] == found["sides"] == "no verdict (6 of 12 runs)"
    assert found["ring"] == found["cause"] == "not run yet"


def test_runs_of_the_first_seeds_and_shorter_runs_do_not_count() -> None:
    early = [{**each, "seed": "0"} for each in runs(0.5)] + [{**each, "generations": "95"} for each in runs(0.5)]
    assert rules.second_plan([*runs(0.92), *early])["distance"] == HOLDS


def test_the_ants_rings_are_counted() -> None:
    ants = [row("MaxEnt", seed, 9.0 + seed / 100, "ant", ring_90_99=4.0 if seed < 11 else 1.0) for seed in rules.SIX]
    assert rules.second_plan(ants)["ring"] == HOLDS


def test_ranks_are_the_cause_if_the_paired_interval_excludes_one() -> None:
    ranks = [row("MaxEnt", seed, 39.0 + seed / 10) for seed in rules.SIX]
    whitened = [row("MaxEnt", seed, 25.0 + seed, rules="other", changed=rules.WHITENED) for seed in rules.SIX]
    assert rules.second_plan([*ranks, *whitened])["cause"] == HOLDS
    same = [{**each, "distance_90_99": f"{39.5 - (-1) ** int(each['seed'])}"} for each in whitened]
    assert rules.second_plan([*ranks, *same])["cause"] == UNDECIDED


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


@pytest.mark.parametrize(
    ("sectors", "verdict"),
    [
        ([8, 8, 8, 8, 8, 0], "holds"),
        ([8, 8, 8, 8, 7, 7], "undecided"),
        ([8, 8, 7, 7, 7, 7], "fails"),
    ],
)
def test_a_reliable_ring_needs_all_sectors_in_five_of_six_runs(sectors: list[int], verdict: str) -> None:
    assert rules.ring_verdict(sectors) == verdict


def measured(name: str, seed: int, **numbers: float) -> dict[str, str]:
    """Return a row of heritability.csv."""
    return {"mean": name.format(seed), "engine": "mujoco"} | {key: f"{value}" for key, value in numbers.items()}


def test_the_table_of_the_plan_waits_for_its_runs_and_then_has_verdicts() -> None:
    ant = "ant-maxent-authors-{}-mujoco-seed{{}}"
    rows = [measured(ant.format("whiten"), seed, heritable=seed, share=0.01 * seed) for seed in range(6, 12)]
    rows += [measured(ant.format("own"), seed, heritable=3 * seed, share=0.02 * seed) for seed in rules.ANTS]
    assert tables.fourth(rows).count("not run yet") == 4
    for seed in (7, *rules.ANTS):  # seed 7 was known before the plan and does not count
        rows.append(
            measured(ant.format("four"), seed, heritable=300 + seed, share=0.5 + seed / 1000, reliable_sectors=8)
        )
    for arm, share in (("-four", 0.8), ("", 0.4)):
        for seed in rules.SIX:
            name = f"cheetah-maxent-authors{arm}-mujoco-seed{{}}"
            rows.append(measured(name, seed, heritable=500 + seed, share=share + seed / 1000))
    rows.append(measured("cheetah-maxent-authors-four-mujoco-seed{}-after30", 6, heritable=1, share=0.1))
    table = tables.fourth(rows).splitlines()[2:]
    assert [line.split(" | ")[2] for line in table] == ["holds |"] * 4
    assert "8, 8, 8, 8, 8, 8 |" in table[2] and "p = 0.0022" in table[3]


def test_the_table_of_the_fifth_plan_waits_for_its_runs_and_then_has_verdicts() -> None:
    ant, rows, runs = "ant-maxent-authors-{}-mujoco-seed{{}}", [], []
    assert tables.fifth(runs, rows).count("not run yet") == 4
    for seed in rules.STAGES:
        rows.append(measured(ant.format("staged"), seed, heritable=seed, share=0.3 + seed / 100, reliable_sectors=8))
        rows.append(measured(ant.format("long"), seed, heritable=2 * seed, share=0.2 + seed / 1000))
        ring = 0.0 if seed in (15, 16) else 5.0  # of a mean distance of 9
        runs.append({"run": f"ant-maxent-authors-first-mujoco-seed{seed}", "engine": "mujoco"})
        runs[-1] |= {f"ring{rules.LATE}": f"{ring}", f"distance{rules.LATE}": "9"}
    table = tables.fifth(runs, rows).splitlines()[2:]
    assert [line.split(" | ")[2] for line in table] == ["fails |", "holds |", "holds |", "undecided |"]
    assert "4 of 6 runs" in table[3]


@pytest.mark.parametrize(
    ("share", "least", "verdict"),
    [((0.8, 0.4), 0.7, "holds"), ((0.8, 0.4), 0.6, "undecided"), ((0.4, 0.8), 0.9, "fails")],
)
def test_the_cheetahs_share_must_rise_and_its_variance_must_not_fall(
    share: tuple[float, float], least: float, verdict: str
) -> None:
    groups = [[value + 0.001 * place for place in range(6)] for value in share]
    assert rules.share_verdict(groups, Interval(1.0, least, 1.2)) == verdict
