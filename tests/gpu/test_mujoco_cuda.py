"""Rollouts on a real GPU. Only the paper's robots have equal bits there.

Robots: cheetah and ant are Gymnasium's; paper-cheetah and paper-ant are the replicas of Bullet's robots.

The cheetah's steps agree with MuJoCo's to single precision for dozens of steps. The ant's do until a foot touches the
ground: MuJoCo Warp orients the friction pyramid of steep capsules differently (seen in version 4.0).
"""

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.gpu_batch import STD, mixed_batch, on_the_cpu, table

from ees_mpi import machine, train
from ees_mpi.commands.verify import verify, verify_updates
from ees_mpi.errors import TaskError
from ees_mpi.generation import Batch, Outcome
from ees_mpi.ranks import call
from ees_mpi.tasks import TASKS
from ees_mpi.tasks.mujoco.engine import lacking
from ees_mpi.tasks.mujoco.replica import robots
from ees_mpi.tasks.mujoco.replica.robots import replica_model

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(lacking()), reason=f"needs a GPU: {lacking()}"),
    pytest.mark.filterwarnings("ignore"),
]

ROBOTS = {
    "cheetah": {"name": "mujoco", "model": "cheetah"},
    "ant": {"name": "mujoco", "model": "ant"},
    "paper-cheetah": {"name": "cheetah", "engine": "mujoco"},
    "paper-ant": {"name": "ant", "engine": "mujoco"},
}
SOON_APART = {"ant"}  # robots that agree with the CPU for three steps only
PAPER = ["cheetah", "ant"]


def build(robot: str = "cheetah", **settings: Any) -> Any:
    return TASKS.build({"hidden": [16], "steps": 25, "observation_share": 0.5, **ROBOTS[robot], **settings})


def on_the_gpu(task: Any, batch: Batch, rollouts: Any) -> list[Outcome]:
    outcomes: list[Outcome] = rollouts.evaluate_batch(
        batch, np.zeros(task.observation_dim), np.ones(task.observation_dim)
    )
    return outcomes


@pytest.fixture(params=list(ROBOTS))
def opened(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Any, Any]]:
    task = build(request.param, steps=3 if request.param in SOON_APART else 25)
    noise = table(task)
    rollouts = task.open_batches(5, noise, wanted=6, antithetic=True, say=print)
    yield task, noise, rollouts
    rollouts.close()


def test_a_mixed_batch_gives_about_what_the_cpu_gives(opened: tuple[Any, Any, Any]) -> None:
    task, noise, rollouts = opened
    batch = mixed_batch(task)
    outcomes = on_the_gpu(task, batch, rollouts)
    assert rollouts.capacity == 8 and [each.index for each in outcomes] == list(range(10, 16))
    for place, outcome in enumerate(outcomes):
        expected = on_the_cpu(task, batch, noise, place)
        assert outcome.valid and outcome.length == expected.length == task.steps
        np.testing.assert_allclose(outcome.behavior, expected.behavior, atol=0.05)
        assert (outcome.observations is None) == (expected.observations is None)
        if outcome.observations is not None and expected.observations is not None:
            assert outcome.observations[0] == task.steps


def test_the_first_steps_agree_to_the_rounding_of_single_precision() -> None:
    for robot, steps in (("cheetah", 5), ("ant", 2), ("paper-cheetah", 12), ("paper-ant", 12)):
        task = build(robot, steps=steps)
        noise = table(task)
        rollouts = task.open_batches(5, noise, wanted=6, antithetic=True, say=print)
        batch = mixed_batch(task)
        for place, outcome in enumerate(on_the_gpu(task, batch, rollouts)):
            expected = on_the_cpu(task, batch, noise, place)
            np.testing.assert_allclose(outcome.behavior, expected.behavior, atol=2e-4)
            if outcome.observations is not None and expected.observations is not None:
                np.testing.assert_allclose(outcome.observations, expected.observations, rtol=2e-3, atol=2e-2)
        rollouts.close()


def test_more_individuals_than_fit_run_in_several_passes(opened: tuple[Any, Any, Any]) -> None:
    task, _, rollouts = opened
    n = 30
    sign = np.where(np.arange(n) % 2, -1, 1).astype(np.int8)
    batch = Batch(
        np.arange(n),
        mixed_batch(task).means[:1],
        STD,
        np.repeat(np.arange(n // 2) * 7, 2),
        sign,
        np.zeros(n, np.int32),
        np.ones(n, np.bool_),
    )
    outcomes = on_the_gpu(task, batch, rollouts)
    assert [each.index for each in outcomes] == list(range(n)) and all(each.valid for each in outcomes)
    assert all(each.observations is not None and each.observations[0] == task.steps for each in outcomes)


def test_one_broken_world_harms_no_other(opened: tuple[Any, Any, Any]) -> None:
    task, _, rollouts = opened
    good = mixed_batch(task)
    means = np.stack([good.means[0], np.full(task.parameters, 1e30, np.float32)])
    batch = Batch(
        np.arange(4),
        means,
        STD,
        np.array([3, 3, 9, 9]),
        np.array([1, -1, 1, -1], np.int8),
        np.array([0, 0, 1, 1], np.int32),
        np.ones(4, np.bool_),
    )
    outcomes = on_the_gpu(task, batch, rollouts)
    assert [each.valid for each in outcomes] == [True, True, False, False]
    assert math.isnan(outcomes[2].fitness) and outcomes[2].observations is None
    for each in outcomes[:2]:
        assert each.observations is not None and np.isfinite(each.observations).all()


@pytest.mark.parametrize("robot", ["cheetah", "paper-cheetah", "paper-ant"])
def test_a_steps_count_that_graphs_do_not_divide_and_marks(robot: str) -> None:
    task = build(robot, steps=13, behavior_steps=[4, 13])
    noise = table(task)
    rollouts = task.open_batches(5, noise, wanted=6, antithetic=True, say=print)
    batch = mixed_batch(task)
    for place, outcome in enumerate(on_the_gpu(task, batch, rollouts)):
        expected = on_the_cpu(task, batch, noise, place)
        assert outcome.length == expected.length
        np.testing.assert_allclose(outcome.behavior, expected.behavior, atol=0.02)
    rollouts.close()


@pytest.mark.parametrize("robot", ["ant", "paper-ant"])
def test_ants_that_fall_end_early(robot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if robot == "paper-ant":  # it is heavy and hardly ever falls; here it starts at 0.75 and soon sinks below 0.7
        low = dataclasses.replace(replica_model("ant"), height=(0.7, math.inf))
        monkeypatch.setattr(robots, "replica_model", lambda robot: low)
    task = build(robot, steps=200, terminate="environment")
    rollouts = task.open_batches(5, table(task), wanted=6, antithetic=True, say=print)
    good = mixed_batch(task)
    wild = Batch(good.index, good.means * 10, 2.0, good.offset, good.sign, good.parent, good.observe)
    outcomes = on_the_gpu(task, wild, rollouts)
    assert all(1 <= each.length <= 200 for each in outcomes) and min(each.length for each in outcomes) < 200
    for each in outcomes:
        assert each.observations is None or each.observations[0] == each.length
    rollouts.close()


def test_constraints_that_do_not_fit_are_an_error_that_names_the_setting() -> None:
    task = build("ant", constraints=4, contacts=24, steps=50)
    rollouts = task.open_batches(5, table(task), wanted=6, antithetic=True, say=print)
    with pytest.raises(TaskError, match=r"raise task\.constraints \(now 4\)"):
        on_the_gpu(task, mixed_batch(task), rollouts)
    rollouts.close()


def test_a_robot_that_is_faster_than_any_robot_is_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ees_mpi.tasks.mujoco.gpu_results.FASTEST", 1e-6)  # no robot is that slow
    task = build("paper-ant", steps=5)
    rollouts = task.open_batches(5, table(task), wanted=6, antithetic=True, say=print)
    outcomes = on_the_gpu(task, mixed_batch(task), rollouts)
    assert not any(each.valid for each in outcomes) and {each.length for each in outcomes} == {2}
    rollouts.close()


def settings(device: str, generations: int) -> dict[str, Any]:
    task = {"task.engine": "mujoco", "task.device": device, "task.steps": 30, "task.hidden": [16]}
    run = {"population.size": 200, "noise.size": 100_000, "run.generations": generations}
    return {**task, **run, "task.observation_share": 0.5}


def verified(path: Path) -> str:
    """Return the lines of `ees-mpi verify`, and of `--updates`."""
    return "\n".join(call("verify", lambda ranks: [*verify(ranks, path, None, None), *verify_updates(ranks, path)]))


@pytest.mark.parametrize("robot", PAPER)
def test_a_run_is_verified_and_goes_on_on_the_other_device(robot: str, tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    train(f"{robot}-maxent", path, settings=settings("cuda", 2)).close()
    first = verified(path)
    assert "400 individuals of generations 0, 1: the same bits" in first and "2 updates" in first
    train(f"{robot}-maxent", path, settings=settings("cpu", 3), resume=True).close()
    both = verified(path)
    assert "400 individuals of generations 0, 1: the same bits" in both and "generations 2: the same bits" in both
    with train(f"{robot}-maxent", path, settings=settings("cuda", 4), resume=True) as run:
        assert [run.device(generation) for generation in range(4)] == ["cuda", "cuda", "cpu", "cuda"]
        assert np.asarray(run["valid"]).all()
        assert all(run.machine(0)[name] not in ("", "none") for name in machine.GPU_BITS_DEPEND_ON)


@pytest.mark.parametrize("preset", ["ant-maxent", "cheetah-maxent"])
def test_the_papers_robots_repeat_bit_by_bit(preset: str, tmp_path: Path) -> None:
    with (
        train(preset, tmp_path / "one.h5", settings=settings("cuda", 2)) as one,
        train(preset, tmp_path / "two.h5", settings=settings("cuda", 2)) as two,
    ):
        assert np.array_equal(one["behavior"], two["behavior"])
        assert one["state_sha256"][-1] == two["state_sha256"][-1]


@pytest.mark.parametrize(
    ("preset", "changed", "digest"),
    [
        ("cheetah-maxent-authors", {}, b"1368a93e76"),
        ("ant-maxent-authors", {"objective.normalization": "whiten", "task.starts": "own"}, b"e745b90f3c"),
    ],
)
def test_an_h200_has_the_bits_of_two_other_machines(
    preset: str, changed: dict[str, Any], digest: bytes, tmp_path: Path
) -> None:
    """Digests of six generations on two machines with Xeon cores; they change with `machine.GPU_KERNELS`."""
    six = {"task.engine": "mujoco", "task.device": "cuda", "run.generations": 6, "run.seed": 9, **changed}
    with train(preset, tmp_path / "run.h5", settings=six) as run:
        if run.machine(0)["gpu"] != "NVIDIA H200":
            pytest.skip(f"the digests are those of an H200, not of {run.machine(0)['gpu']}")
        assert run["state_sha256"][-1].startswith(digest)


@pytest.mark.parametrize("starts", ["own", "common", "fixed"])
@pytest.mark.parametrize("robot", PAPER)
def test_each_start_gives_about_what_the_cpu_gives_and_is_verified(robot: str, starts: str, tmp_path: Path) -> None:
    found, several = [], {"task.rollouts": 2, "task.starts": starts, "task.steps": 10}
    for device in ("cpu", "cuda"):
        with train(f"{robot}-maxvar", tmp_path / f"{device}.h5", settings={**settings(device, 1), **several}) as run:
            found.append(np.asarray(run["behavior_by_start"][0]))
    np.testing.assert_allclose(found[1], found[0], atol=2e-4)
    assert np.abs(found[0][:, 0] - found[0][:, 1]).min() > 0
    assert "200 individuals of generations 0: the same bits" in verified(tmp_path / "cuda.h5")
