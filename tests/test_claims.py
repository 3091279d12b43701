"""The endpoints, verdicts and table of the paper's claims, on numbers that were made up."""

import math
import re
from pathlib import Path
from typing import Any

import claims
import endpoints
import numpy as np
import pytest
from blocks import KeptRun
from claims import DIRECTION, NOT_REPRODUCED, OPEN, REPRODUCED, Answer, Arms
from support.program import needs_results

NAMES = dict(zip(("distance", "near", "side", "evenness", "directions"), claims.SHOWN, strict=True))


def arms(robot: str, count: int = 12, **values: dict[str, Any]) -> Arms:
    """Return arms of runs; a value is that of all runs, with a little spread, or a list."""
    found: Arms = {}
    names = {"es": claims.ES, "maxvar": "MaxVar", "maxent": "MaxEnt"}
    usual = {"distance": 10.0, "near": 0.1, "side": 0.4, "evenness": 0.5, "directions": 36.0}
    for name, given in values.items():
        arm = ("text", robot, names[name])
        numbers = {NAMES[key]: value for key, value in {**usual, **given}.items()}
        runs = []
        for k in range(count):
            each = {key: v[k] if isinstance(v, list) else v * (1 + 0.001 * k) for key, v in numbers.items()}
            runs.append({"run": f"{name}-{k}", **{key: f"{value}" for key, value in each.items()}})
        found[arm] = runs
    return found


def verdict(answers: list[Answer], about: str) -> str:
    """Return the verdict on an algorithm or a robot."""
    (found,) = (answer.verdict for answer in answers if answer.about == about)
    return found


def test_a_distance_is_reproduced_if_the_papers_ratio_is_inside_the_interval() -> None:
    found = arms("cheetah", es={"distance": 10.0}, maxvar={"distance": 5.0}, maxent={"distance": 9.39})
    answers = claims.distance(found, "text", "cheetah")
    assert (verdict(answers, "MaxVar"), verdict(answers, "MaxEnt")) == (DIRECTION, REPRODUCED)


def test_a_distance_is_not_reproduced_if_the_other_side_goes_further_and_open_if_the_test_finds_nothing() -> None:
    answers = claims.distance(arms("ant", es={}, maxvar={"distance": 12.0}, maxent={}), "text", "ant")
    assert (verdict(answers, "MaxVar"), verdict(answers, "MaxEnt")) == (NOT_REPRODUCED, OPEN)


def test_a_difference_of_maxvar_and_maxent_is_not_reproduced_and_none_is_not_decided() -> None:
    found = arms("cheetah", maxvar={"distance": 5.0}, maxent={}) | arms("ant", maxvar={}, maxent={})
    answers = claims.difference(found, "text")
    assert (verdict(answers, "cheetah"), verdict(answers, "ant")) == (NOT_REPRODUCED, OPEN)


@pytest.mark.parametrize(("share", "expected"), [(0.05, REPRODUCED), (0.2, NOT_REPRODUCED), (0.1, OPEN)])
def test_standard_es_should_leave_more_near_the_start(share: float, expected: str) -> None:
    answers = claims.near(arms("ant", es={}, maxvar={}, maxent={"near": share}), "text")
    assert verdict(answers, "MaxEnt") == expected


@pytest.mark.parametrize(
    ("there", "expected"), [(10, REPRODUCED), (9, OPEN), (7, OPEN), (6, NOT_REPRODUCED), (0, NOT_REPRODUCED)]
)
def test_ten_of_twelve_runs_need_both_sides_or_a_ring_and_six_or_fewer_fail(there: int, expected: str) -> None:
    side = {"side": [0.05] * there + [0.04] * (12 - there)}
    even = {"evenness": [0.34] * there + [0.3] * (12 - there)}
    near = {"distance": [5.0] * there + [4.9] * (12 - there)}
    assert (
        verdict(claims.counted(arms("cheetah", maxvar=side, maxent={}), "text", "cheetah", claims.has_both), "MaxVar")
        == expected
    )
    for some in (even, near):
        assert (
            verdict(claims.counted(arms("ant", maxvar=some, maxent={}), "text", "ant", claims.has_ring), "MaxVar")
            == expected
        )


def test_with_fewer_than_twelve_runs_nothing_is_decided() -> None:
    found = arms("cheetah", 11, es={}, maxvar={}) | arms("cheetah", 12, maxent={})
    answers = claims.counted(found, "text", "cheetah", claims.has_both)
    assert claims.cell(answers) == (
        "MaxVar 11 of 11; MaxEnt 12 of 12: MaxVar **not decided** (11 of 12 runs), MaxEnt **reproduced**"
    )
    assert claims.cell(answers[:1]) == "MaxVar 11 of 11: **not decided** (11 of 12 runs)"
    assert "| **mean of 11** | 10 |" in claims.report(arms("cheetah", 11, es={}))


def test_a_claim_of_several_tests_needs_all_of_them_with_holms_correction() -> None:
    low, high, mixed = [1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0], [1.5, 2.5, 8.5, 9.5, 10.5]
    assert claims.all_larger([(high, low)] * 3)[0] == REPRODUCED
    assert claims.all_larger([(high, low), (mixed, low)])[0] == OPEN
    assert claims.all_larger([(high, low), (low, high)])[0] == NOT_REPRODUCED
    assert claims.all_larger([(high, low)] * 7)[0] == OPEN  # 7 times 0.0079 is above 0.05


def test_six_runs_are_decided_where_an_earlier_plan_had_a_rule_for_them() -> None:
    six = [{}] * 6
    assert claims.planned("", "", REPRODUCED, "text", six, six) == Answer("", "", REPRODUCED, claims.FIRST)
    assert claims.planned("", "", REPRODUCED, "released", six, six) == Answer("", "", OPEN, "6 of 12 runs")
    for there, expected in ((6, REPRODUCED), (5, REPRODUCED), (3, OPEN), (2, NOT_REPRODUCED)):
        even = {"evenness": [0.34] * there + [0.3] * (6 - there)}
        found = arms("ant", 6, maxvar=even, maxent=even)
        both = claims.counted(
            {("released", *arm[1:]): runs for arm, runs in found.items()}, "released", "ant", claims.has_ring
        )
        assert (verdict(both, "MaxVar"), verdict(both, "MaxEnt")) == (OPEN, expected)


@needs_results
def test_the_runs_that_precede_the_plan_have_the_digests_that_it_notes() -> None:
    paper = Path(claims.__file__).parent
    noted = re.findall(r"^\| (\S+) \| 100 \| `([0-9a-f]{16})` \|$", (paper / "plan6.md").read_text(), re.MULTILINE)
    kept = {row["run"]: row["digest"] for row in endpoints.read(paper / "results" / "numbers.csv")}
    assert len(noted) == 27 and all(kept[run].startswith(digest) for run, digest in noted)


def test_endpoints_are_means_of_the_last_ten_generations() -> None:
    late = [np.where(np.arange(100) < 90, 99.0, value) for value in (8.0, 0.25, 0.5, 2.0, 0.5)]
    late[2][95:] = math.nan  # no individual is beyond 5 units
    names = ("distance_mean", "near_origin", "balance", "ring", "invalid_share")
    angle = 2 * np.pi * (np.arange(1000) % 9 + 0.5) / 36
    place = 6 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    place[0] = math.nan  # invalid
    metrics = dict(zip(names, late, strict=True))
    found = endpoints.places(KeptRun("r", {}, "", {"generations": 100}, metrics, place, np.zeros(1000, np.int8)))
    expected = {"distance_90_99": 8.0, "near_origin_90_99": 0.25, "directions_last": 9}
    expected |= {"evenness_90_99": 2.0 / (8.0 * 0.5), "side_90_99": 0.5 * (1 - 0.25) / 2 / 2}
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_an_arm_has_the_runs_of_the_plan_once_they_are_no_fewer_than_earlier_ones() -> None:
    same = {"robot": "ant", "algorithm": "MaxEnt", "rules": "text", "changed": "", "kind": "training", "run": "r"}
    same |= {**endpoints.PAPERS_ROBOTS, "direction": "", "generations": "100"}
    rows = [{**same, "seed": seed} for seed in ("6", "20", "7", "21")]
    arm = ("text", "ant", "MaxEnt")
    assert [row["seed"] for row in claims.arms_of(rows)[arm]] == ["20", "21"]
    assert [row["seed"] for row in claims.arms_of(rows[:-1])[arm]] == ["6", "7"]
