"""The claims of the plan: endpoints, groups of runs, and verdicts that wait for all seeds."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.program import CHECKOUT

sys.path.insert(0, str(CHECKOUT / "jobs" / "paper"))  # the scripts import each other by name

import claims
import claims_tables


class FakeRun:
    """The metrics of a run, by name."""

    def __init__(self, name: str, **metrics: Any):
        self.path, self._metrics = Path(name), metrics
        self.generations, self.names = len(next(iter(metrics.values()))), list(metrics)

    def __getitem__(self, name: str) -> Any:
        return self._metrics[name]


def late(value: float, generations: int = 30) -> Any:
    """Return a metric that has a value in generations 20 to 29, and another one before and after."""
    return np.where((np.arange(generations) >= 20) & (np.arange(generations) < 30), value, 1000.0)


def ants(seeds: int, generations: int = 30) -> dict[str, Any]:
    """Return runs in which EES spreads more than standard ES, and goes half as far."""
    found = {}
    for group, uniformity, distance in (("es", 0.3, 20.0), ("maxvar", 0.8, 10.0), ("maxent", 0.9, 10.1)):
        for seed in range(seeds):
            name, more = f"ant-{group}-mujoco-seed{seed}", 0.001 * seed
            metrics = {"direction_uniformity": uniformity + more, "distance_mean": distance + more}
            found[name] = FakeRun(name, **{key: late(value, generations) for key, value in metrics.items()})
    return found


def verdicts(runs: dict[str, Any]) -> dict[str, str]:
    return {each.claim.name: each.verdict for each in claims.examine(runs, Path("nowhere"), claims.PLAN)}


def test_claims_are_decided_when_all_seeds_have_run() -> None:
    found = verdicts(ants(6))
    assert [found[name] for name in ("ant-directions", "ant-distance", "ant-equal")] == ["holds"] * 3
    assert found["ant-origin"] == found["cheetah-sides"] == "not run"
    assert verdicts(ants(5))["ant-directions"] == "not decided (5 of 6)"


def test_the_endpoint_is_the_mean_over_generations_20_to_29_also_of_a_longer_run() -> None:
    assert claims.late(ants(1, 100)["ant-es-mujoco-seed0"], "distance_mean", last_only=False) == pytest.approx(20.0)
    short = FakeRun("a", balance=np.array([0.5, np.nan, 1.0]))
    assert claims.late(short, "balance", last_only=False) == pytest.approx(0.5)  # nobody beyond the radius counts as 0
    assert claims.late(short, "balance", last_only=True) == 1.0


def test_seeding_compares_runs_with_the_gentle_rule_only() -> None:
    runs = {}
    for group, x in (("maxvar-further", 5.0), ("maxent-further", 6.0), ("adapt-gentle", 1.0), ("adapt", 99.0)):
        for seed in range(6):
            name = f"ant-{group}-mujoco-seed{seed}"
            runs[name] = FakeRun(name, fitness_mean=np.arange(21) * (x + 0.01 * seed))
    (found,) = (each for each in claims.examine(runs, Path("nowhere"), claims.PLAN) if each.claim.name == "ant-seeding")
    assert found.verdict == "holds" and len(found.answers) == 6
    assert found.groups["after 5 adapt-gentle"].values[0] == 5.0
    assert "after 20: from MaxVar" in claims_tables.table([found]) and "| holds |" in claims_tables.details([found])
