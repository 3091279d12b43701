"""The claims of the first plan: endpoints, groups of runs, and verdicts that wait for all seeds."""

import sys
from typing import Any

import numpy as np
import pytest
from support.program import CHECKOUT

sys.path.insert(0, str(CHECKOUT / "jobs" / "paper"))  # the scripts import each other by name

import claims
import claims_tables

FACTS = {"robot": "ant", "engine": "mujoco", "rules": "text", "kind": "training", "direction": "0", "std": "0.02"}
FACTS |= {"generations": "30", "population": "10000", "run": "", "start": "random", "first_steps": "full"}


def row(algorithm: str, seed: int, facts: dict[str, str], **numbers: float) -> claims.Row:
    """Return a row of numbers.csv."""
    return {**FACTS, "algorithm": algorithm, "seed": f"{seed}", **facts, **{k: f"{v}" for k, v in numbers.items()}}


def ants(seeds: int, **facts: str) -> list[claims.Row]:
    """Return runs in which EES spreads more than standard ES, and goes half as far."""
    groups = (("standard ES", 0.3, 20.0), ("MaxVar", 0.8, 10.0), ("MaxEnt", 0.9, 10.1))
    return [
        row(name, seed, facts, uniformity_20_29=uniform + 0.001 * seed, distance_20_29=distance + 0.001 * seed)
        for name, uniform, distance in groups
        for seed in range(seeds)
    ]


def verdicts(rows: list[claims.Row]) -> dict[str, str]:
    return {each.claim.name: each.verdict for each in claims.examine(rows, claims.PLAN)}


def test_claims_are_decided_when_all_seeds_have_run() -> None:
    found = verdicts(ants(6))
    assert [found[name] for name in ("ant-directions", "ant-distance", "ant-equal")] == ["holds"] * 3
    assert found["ant-origin"] == found["cheetah-sides"] == "not run"
    assert verdicts(ants(5))["ant-directions"] == "not decided (5 of 6)"


@pytest.mark.parametrize("other", [{"rules": "released"}, {"engine": "bullet"}, {"population": "600"}])
def test_runs_of_other_rules_engines_and_sizes_are_not_counted(other: dict[str, Any]) -> None:
    assert set(verdicts(ants(6, **other)).values()) == {"not run"}


def test_the_endpoint_is_the_mean_over_generations_20_to_29_or_over_the_last_ten_of_a_shorter_run() -> None:
    late = row("MaxEnt", 0, {}, distance_20_29=20.0, distance_last_10=99.0, distance_last=5.0)
    short = row("MaxEnt", 0, {}, distance_last_10=7.0, distance_last=5.0)
    assert [claims.value(each, "distance_mean", last_only=False) for each in (late, short)] == [20.0, 7.0]
    assert claims.value(late, "distance_mean", last_only=True) == 5.0
    assert claims.value(row("MaxEnt", 0, {}), "balance", last_only=True) == 0.0  # nobody beyond the radius


def test_seeding_compares_runs_with_the_gentle_rule_only() -> None:
    rows = []
    groups = (("MaxVar", "gentle", 5.0), ("MaxEnt", "gentle", 6.0), ("random", "gentle", 1.0), ("random", "full", 99.0))
    for start, rule, x in groups:
        facts = {"kind": "seeding", "start": start, "first_steps": rule, "generations": "21"}
        for seed in range(6):
            after = {f"x_{updates}": updates * (x + 0.01 * seed) for updates in (5, 10, 20)}
            rows.append(row("standard ES", seed, facts, **after))
    (found,) = (each for each in claims.examine(rows, claims.PLAN) if each.claim.name == "ant-seeding")
    assert found.verdict == "holds" and len(found.answers) == 6
    assert np.isclose(found.groups["after 5 adapt-gentle"].values[0], 5.0)
    assert "after 20: from MaxVar" in claims_tables.table([found]) and "| holds |" in claims_tables.details([found])
