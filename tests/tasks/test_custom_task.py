from pathlib import Path

import pytest
from support.program import CHECKOUT, ees, info

from ees_mpi.errors import ConfigError
from ees_mpi.tasks import TASKS


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("TooLong", r"a behavior of shape \(2,\); expected .*Outcome with \(1,\)"),
        ("Words", r"evaluate\(\) returned Outcome; expected .*Outcome with \(1,\): could not convert"),
        ("Odd", r"initial\(\) has shape \(3,\); expected \(2,\)"),
        ("Nothing", "expected a class with parameters, behavior_dim, initial, open; it has no parameters"),
    ],
)
def test_a_task_that_cannot_work_is_refused_before_anything_runs(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TASKS.build({"name": "custom", "function": f"support.own_tasks:{name}"}).check()


def test_behavior_steps_go_to_the_users_class_and_a_task_without_steps_refuses_them() -> None:
    settings = {"name": "custom", "function": "support.own_tasks:Marked", "behavior_steps": [2, 5]}
    task = TASKS.build(settings)
    task.check()
    assert task.behavior_dim == 2
    with pytest.raises(ConfigError, match=r"Base\(\) raised TypeError"):
        TASKS.build({**settings, "function": "support.own_tasks:Base"}).check()
    with pytest.raises(ConfigError, match=r"task\.behavior_steps: unknown name"):
        TASKS.build({"name": "interference", "behavior_steps": [1]})


@pytest.mark.standing_ranks
@pytest.mark.slow
def test_the_example_runs_and_spreads_its_landings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CHECKOUT)
    out = tmp_path / "throw.h5"
    done = ees("train", "jobs/examples/own_task.toml", "--set", "run.generations=40", "--out", out, ranks=2)
    assert done.returncode == 0, done.stderr
    assert info(out)["task"] == "custom" and info(out)["parameters"] == 2
    assert ees("verify", out).returncode == 0
