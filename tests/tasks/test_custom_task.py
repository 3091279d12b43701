import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import own_tasks
from support.program import CHECKOUT, done, ees, info

import ees_mpi
from ees_mpi.errors import PluginError
from ees_mpi.registry.plugins import Guard
from ees_mpi.tasks import TASKS
from ees_mpi.tasks.own import OwnBatches


@pytest.mark.standing_ranks
@pytest.mark.slow
def test_the_example_runs_on_several_ranks_and_can_be_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CHECKOUT)
    out = tmp_path / "throw.h5"
    done("train", "jobs/examples/own_task.toml", "--set", "run.generations=3", "--out", out, ranks=3)
    assert info(out)["task"] == "custom" and info(out)["parameters"] == 2
    assert ees("verify", out).returncode == 0


def test_a_property_that_fails_after_the_first_commit_is_no_error_of_the_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(record: object) -> None:
        monkeypatch.setattr(own_tasks.TwoPlaces, "behavior_dim", property(lambda self: 1 // 0))

    task = {"name": "custom", "function": "support.own_tasks:TwoPlaces"}
    parts = {"population": {"name": "normal", "size": 4, "std": 0.1}, "objective": {"name": "maxvar"}}
    parts["noise"] = {"size": 1000}
    with pytest.raises(PluginError, match=r"generation 1: .* behavior_dim raised ZeroDivisionError"):
        ees_mpi.train({"task": task, **parts}, tmp_path / "run.h5", generations=3, on_generation=fail)
    with ees_mpi.open_run(tmp_path / "run.h5") as run:
        assert run.generations == 1
    with pytest.raises(ees_mpi.ConfigError, match="behavior_dim raised"):
        ees_mpi.train({"task": task, **parts}, tmp_path / "new.h5", generations=3)
    assert not (tmp_path / "new.h5").exists()


def test_a_task_may_return_the_same_arrays_from_every_rollout() -> None:
    rollouts = TASKS.build({"name": "custom", "function": "support.own_tasks:Reusing"}).open(0)
    outcomes = [rollouts.evaluate(n, np.full(2, n, np.float32), np.zeros(1), np.ones(1), True) for n in range(3)]
    assert [(*one.behavior, one.fitness) for one in outcomes] == [(0, 0, 0), (1, 1, 1), (2, 2, 2)]
    assert [one.observations.tolist() for one in outcomes] == [[1, 0, 0], [1, 1, 1], [1, 2, 4]]


@pytest.mark.parametrize(
    "task",
    [
        {"name": "custom", "function": "support.own_tasks:InPlace"},
        {"name": "function", "function": "support.own_tasks:doubled_in_place", "parameters": 2, "behavior_dim": 2},
    ],
)
def test_a_task_may_change_in_place_what_it_is_given(task: dict[str, object]) -> None:
    rollouts, given = TASKS.build(task).open(0), (np.ones(2, np.float32), np.ones(1), np.ones(1))
    first, second = (rollouts.evaluate(0, *given, False).behavior for _ in range(2))
    assert first == second


def test_a_batch_evaluator_may_return_the_same_arrays_from_every_batch() -> None:
    task: Any = own_tasks.Reusing()
    task.evaluate_batch = lambda batch, *rest: [task.evaluate(batch, np.full(2, batch))]
    batches: Any = OwnBatches(task, "task.function x:y")
    outcomes = [batches.evaluate_batch(n, np.zeros(1), np.ones(1))[0] for n in range(3)]
    assert [one.behavior for one in outcomes] == [(0, 0), (1, 1), (2, 2)]


def test_an_object_of_the_user_can_be_copied_and_may_wrap_another_one() -> None:
    class Wrapper:
        def __getattr__(self, name: str) -> object:
            return getattr(1, name)

    wrapped = Guard(Wrapper(), "task.function x:y")
    assert wrapped.real == 1 and not hasattr(wrapped, "device")
    assert all(made(Guard(own_tasks.Waves(), "")).start == 1 for made in (copy.copy, copy.deepcopy))
