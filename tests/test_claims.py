"""The endpoints, verdicts and table of the paper's claims, on numbers that were made up."""

import json
import math
import re
from pathlib import Path
from typing import Any

import claims
import endpoints
import groups
import numpy as np
import page_tables
import pytest
from blocks import KeptRun
from claims import DIRECTION, NOT_REPRODUCED, OPEN, REPRODUCED, Answer
from groups import Groups, groups_of
from support.program import needs_results

NAMES = {"distance": claims.DISTANCE, "near": claims.NEAR, "side": "side_90_99", "evenness": "evenness_90_99"}


def arms(robot: str, count: int = 12, **values: dict[str, Any]) -> Groups:
    """Return groups of runs; a value is that of all runs, with a little spread, or a list."""
    found = {}
    names = {"es": claims.ES, "maxvar": "MaxVar", "maxent": "MaxEnt"}
    usual = {"distance": 10.0, "near": 0.1, "side": 0.4, "evenness": 0.5}
    for name, given in values.items():
        numbers = {NAMES[key]: value for key, value in {**usual, **given}.items()}
        runs = []
        for k in range(count):
            each = {key: v[k] if isinstance(v, list) else v * (1 + 0.001 * k) for key, v in numbers.items()}
            runs.append({"run": f"{name}-{k}", **{key: f"{value}" for key, value in each.items()}})
        found[f"text.{robot}.{names[name]}"] = runs
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
    found = {**arms("cheetah", maxvar={"distance": 5.0}, maxent={}), **arms("ant", maxvar={}, maxent={})}
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
            verdict(claims.counted(arms("ant", maxvar=some, maxent={}), "text", "ant", groups.has_ring), "MaxVar")
            == expected
        )


def test_with_fewer_than_twelve_runs_nothing_is_decided() -> None:
    found = {**arms("cheetah", 11, es={}, maxvar={}), **arms("cheetah", 12, maxent={})}
    answers = claims.counted(found, "text", "cheetah", claims.has_both)
    said = "MaxVar 11 of 11: **not decided** (11 of 12 runs); MaxEnt 12 of 12: **reproduced**"
    assert claims.cell(answers) == said
    assert claims.cell(answers[:1]) == "MaxVar 11 of 11: **not decided** (11 of 12 runs)"


def test_a_claim_of_several_tests_needs_all_of_them_with_holms_correction() -> None:
    low, high, mixed = [1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0], [1.5, 2.5, 8.5, 9.5, 10.5]
    for pairs, expected in (
        ([(high, low)] * 3, REPRODUCED),
        ([(high, low), (mixed, low)], OPEN),
        ([(high, low), (low, high)], NOT_REPRODUCED),
        ([(high, low)] * 7, OPEN),  # 7 times 0.0079 is above 0.05
    ):
        assert claims.verdict_of(*(which for _, which in claims.signs(pairs))) == expected


@needs_results
def test_the_runs_that_precede_the_plan_have_the_digests_that_it_notes() -> None:
    paper = Path(claims.__file__).parent
    noted = re.findall(r"^\| (\S+) \| 100 \| `([0-9a-f]{16})` \|$", (paper / "plan6.md").read_text(), re.MULTILINE)
    kept = {row["run"]: row["digest"] for row in groups.read(paper / "results" / "numbers.csv")}
    assert len(noted) == 27 and all(kept[run].startswith(digest) for run, digest in noted)


def test_endpoints_are_means_of_the_last_ten_generations() -> None:
    late = [np.where(np.arange(100) < 90, 99.0, value) for value in (8.0, 0.25, 0.5, 2.0, 0.5)]
    late[2][95:] = math.nan  # no individual is beyond 5 units
    names = ("distance_mean", "near_origin", "balance", "ring", "invalid_share")
    angle = 2 * np.pi * (np.arange(1000) % 9 + 0.5) / 36
    place = 6 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    place[0] = math.nan  # invalid
    metrics = dict(zip(names, late, strict=True))
    found = endpoints.places(KeptRun("r", "", {"generations": 100}, metrics, place, np.zeros(1000, np.int8)))
    expected = {"distance_90_99": 8.0, "near_origin_90_99": 0.25, "directions_last": 9}
    expected |= {"evenness_90_99": 2.0 / (8.0 * 0.5), "side_90_99": 0.5 * (1 - 0.25) / 2 / 2}
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_a_group_has_the_runs_of_the_plan_and_the_cheetahs_of_all_plans() -> None:
    rows = [row for seed in (6, 20, 7, 21) for row in made_up(1, seed, algorithm="MaxEnt", robot="ant")]
    rows += [{**row, "robot": "cheetah", "rules": "released"} for row in rows]
    found = groups_of(rows)
    assert [row["seed"] for row in found["text.ant.MaxEnt"]] == ["20", "21"]
    assert len(found["released.cheetah.MaxEnt"]) == 4 and not found["text.ant.MaxVar"]
    assert [row["seed"] for row in groups.of_plan(rows[:3])] == ["6", "7"]


def made_up(count: int, first_seed: int = 20, **facts: Any) -> list[groups.Row]:
    """Return rows of runs; a number is that of all of them, with a little spread."""
    usual = {
        "block": "sixth",
        "robot": "cheetah",
        "rules": "text",
        "kind": "training",
        "direction": "",
        "start": "random",
    }
    usual |= {**groups.PAPERS, "std": "0.02", "digest": ""}
    rows = []
    for k in range(count):
        numbers = {name: f"{v * (1 + 0.01 * k)}" if isinstance(v, float) else v for name, v in facts.items()}
        rows.append({**usual, "run": f"r{k}", "seed": f"{first_seed + k}", **numbers})
    return rows


def adapted(name: str, count: int, other: float, own: float | None, **facts: Any) -> list[groups.Row]:
    """Return runs with these distances after adaptation, to the left as to the right."""
    return made_up(count, algorithm=name, adapt=other, adapt_best="" if own is None else own, **facts)


@pytest.mark.parametrize(("other", "expected"), [(10.0, NOT_REPRODUCED), (50.0, OPEN)])
def test_short_runs_of_maml_can_only_speak_against_a_claim(other: float, expected: str) -> None:
    rows = adapted("MaxEnt", 12, other, 40.0) + adapted("MaxVar", 12, other / 2, 20.0)
    rows += adapted("MAML", 6, 30.0, None, first_seed=0, generations="375")
    (only,) = claims.adaptation(groups_of(rows), "text", "MAML")
    assert only.about == "other starts" and only.verdict == expected
    assert only.limit == "6 runs of MAML, three tenths of the steps"
    assert [each.verdict for each in claims.adaptation(groups_of(rows), "text", "MaxVar")] == [REPRODUCED] * 2


def test_both_readings_of_an_evaluation_have_a_verdict_where_maml_has_all_of_its_steps() -> None:
    rows = adapted("MaxEnt", 12, 10.0, 40.0) + adapted("MaxVar", 12, 10.0, 20.0)
    rows += adapted("MAML", 6, 10.0, None, first_seed=0, generations="375")
    long = adapted("MAML", 6, 30.0, 30.0, first_seed=120, generations="1250")
    answers = claims.adaptation(groups_of(rows + long), "text", "MAML")
    assert [(each.about, each.verdict) for each in answers] == [
        ("other starts", NOT_REPRODUCED),
        ("own start", REPRODUCED),
    ]
    assert {each.limit for each in answers} == {"6 runs of MAML"}
    assert "three tenths" in claims.adaptation(groups_of(rows + long[:5]), "text", "MAML")[0].limit
    few = [row for row in rows if row["algorithm"] == "MAML" or int(row["seed"]) < 31]
    assert claims.adaptation(groups_of(few), "text", "MaxVar")[0].limit == "11 of 12 runs"


def test_mutations_end_further_and_vary_more_if_all_eight_tests_say_so() -> None:
    facts: dict[str, Any] = {"kind": "sample", "population": "1000"}
    maml = [
        row
        for std in ("0.02", "0.005")
        for row in made_up(6, 120, algorithm="MAML", distance_last=20.0, distance_variance_last=100.0, **facts, std=std)
    ]
    for variance, expected in ((150.0, REPRODUCED), (100.0, OPEN), (50.0, NOT_REPRODUCED)):
        ours = [
            row
            for name in claims.OURS
            for row in made_up(12, algorithm=name, distance_last=30.0, distance_variance_last=variance, **facts)
        ]
        (found,) = claims.offspring(groups_of(maml + ours), "text")
        assert (found.verdict, found.limit) == (expected, "6 runs of MAML")


def test_a_head_start_is_over_the_first_updates_of_the_runs_of_standard_es() -> None:
    ant: dict[str, Any] = {"robot": "ant", "x_5": 1.0, "x_10": 2.0, "x_20": 5.0}
    rows = made_up(12, algorithm="standard ES", **ant)
    trained: dict[str, Any] = {**ant, "algorithm": "standard ES", "kind": "seeding", "x_20": 9.0}
    for x, expected in ((2.0, REPRODUCED), (1.0, OPEN), (0.5, NOT_REPRODUCED)):
        those = [row for name in claims.OURS for row in made_up(12, start=name, **{**trained, "x_5": x, "x_10": 3.0})]
        answers = claims.seeding(groups_of(rows + those), "text")
        assert [(each.about, each.verdict, each.limit) for each in answers] == [
            (name, expected, "") for name in claims.OURS
        ]


def test_components_specialize_if_five_of_six_do_so_away_from_the_start() -> None:
    facts: dict[str, Any] = {"robot": "ant", "algorithm": "MaxEnt", "coverage_last_10": 300.0}
    alone = made_up(12, **facts)
    for there, expected in ((6, REPRODUCED), (5, REPRODUCED), (4, OPEN), (2, NOT_REPRODUCED)):
        both = made_up(there, kind="mixture", specialization_last=0.6, slower_last=6.0, **facts)
        both += made_up(6 - there, 20 + there, kind="mixture", specialization_last=0.6, slower_last=3.0, **facts)
        (found,) = claims.specialization(groups_of(alone + both), "text")
        assert (found.about, found.verdict) == ("MaxEnt, two random networks", expected)
        assert claims.coverage(groups_of(alone + both), "text")[0].verdict == REPRODUCED  # alike
    assert claims.specialization(groups_of(alone + both[:5]), "text")[0].limit == "5 of 6 runs"
    wide = [{**row, "coverage_last_10": f"{3 * float(row['coverage_last_10'])}"} for row in both]
    assert claims.coverage(groups_of(alone + wide), "text")[0].verdict == NOT_REPRODUCED


def test_an_arm_of_heritability_is_a_row_once_its_networks_are_measured() -> None:
    trained = made_up(2, algorithm="MaxEnt", robot="ant", rules="other", distance_last_10=20.0, evenness_last_10=0.5)
    trained = [{**row, "digest": row["seed"]} for row in trained]
    usual = {"engine": "mujoco", "heritable": "30", "heritable_share": "0.1", "ring": "0.2"}
    measured = [
        {**usual, "mean": f"ant-maxent-authors-unit-mujoco-seed{row['seed']}", "digest": row["digest"]}
        for row in trained
    ]
    first, second = (page_tables.arms(groups_of(trained, some), "ant").splitlines()[2:] for some in ([], measured))
    assert not first and [line.partition(" | ")[0] for line in second] == ["| whitening, kernel 1.0, one start"]
    assert "| 20, 21 | 30 (30 to 30) | 10 % (10 to 10) | - | 2 of 2 | 0 of 2 | 20 (20 to 20) |" in second[0]


def test_a_part_of_maml_is_no_training_and_the_last_one_counts_all_iterations() -> None:
    task = "name = 'cheetah'\nengine = 'mujoco'"
    config = f"[task]\n{task}\n[population]\nname = 'tasks'\nsize = 40\nstd = 0.02\n[run]\nseed = 1020"
    started = json.dumps({"path": "runs/cheetah-maml-part9-mujoco-seed20.h5", "generation": 125})
    about = {"generations": 125, "kind": "run", "started_from": started, "state_sha256": "d"}
    runs = (
        KeptRun(name, f"method = 'maml'\n{config}", about, {}, np.zeros((0, 1)), np.zeros(0, np.int8))
        for name in ("cheetah-maml-mujoco-seed20", "cheetah-maml-part10-mujoco-seed20")
    )
    whole, part = map(endpoints.facts, runs)
    assert (whole["kind"], whole["generations"], whole["algorithm"]) == ("training", "1250", "MAML")
    assert groups.name_of(whole) == "MAML" and (part["kind"], groups.name_of(part)) == ("part", "")
