from pathlib import Path

import pytest
from support.program import CHECKOUT, done, ees, info

from ees_mpi.tasks import TASKS


def test_behavior_steps_go_to_the_users_class() -> None:
    settings = {"name": "custom", "function": "support.own_tasks:Marked", "behavior_steps": [2, 5]}
    task = TASKS.build(settings)
    task.check()
    assert task.behavior_dim == 2


@pytest.mark.standing_ranks
@pytest.mark.slow
def test_the_example_runs_and_spreads_its_landings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CHECKOUT)
    out = tmp_path / "throw.h5"
    done("train", "jobs/examples/own_task.toml", "--set", "run.generations=40", "--out", out, ranks=2)
    assert info(out)["task"] == "custom" and info(out)["parameters"] == 2
    assert ees("verify", out).returncode == 0
