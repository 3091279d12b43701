"""Whole batches of the paper's robots by Warp on the CPU: the kernels of a GPU without its graphs."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from support.gpu_batch import STD, mixed_batch, on_the_cpu, table

from ees_mpi.tasks import TASKS
from ees_mpi.tasks.mujoco.gpu_robots import GpuSetup
from ees_mpi.tasks.mujoco.gpu_rollouts import GpuRollouts
from ees_mpi.tasks.mujoco.noisy_walks import GpuNoisyWalks
from ees_mpi.tasks.mujoco.physics import Buffers
from ees_mpi.tasks.mujoco.robot_model import Toolkit

STEPS = 13  # graphs of ten steps do not divide 13


@pytest.fixture(scope="module")
def tools() -> Toolkit:
    torch, warp = pytest.importorskip("torch"), pytest.importorskip("warp")
    warp.config.log_level = warp.LOG_WARNING
    warp.init()
    return Toolkit(torch, warp, pytest.importorskip("mujoco_warp"), "cpu")


def build(robot: str) -> tuple[Any, Any]:
    from ees_mpi.tasks.mujoco.replica.robots import replica_model

    settings = {"hidden": [16], "steps": STEPS, "behavior_steps": [4, STEPS], "observation_share": 1.0}
    return TASKS.build({"name": robot, "engine": "mujoco", **settings}), replica_model(robot)


@pytest.mark.parametrize("robot", ["cheetah", "ant"])
def test_a_batch_in_several_passes_gives_what_single_rollouts_give(tools: Toolkit, robot: str) -> None:
    task, robot_model = build(robot)
    noise, batch = table(task), mixed_batch(task)
    rollouts = GpuRollouts(GpuSetup(tools, task, robot_model, 5, Buffers(1, 1)), noise, 2, 2)
    outcomes = rollouts.evaluate_batch(batch, np.zeros(task.observation_dim), np.ones(task.observation_dim))
    rollouts.close()
    for place, outcome in enumerate(outcomes):
        expected = on_the_cpu(task, batch, noise, place)
        assert (outcome.index, outcome.valid, outcome.length) == (expected.index, True, STEPS)
        np.testing.assert_allclose(
            [outcome.fitness, *outcome.behavior], [expected.fitness, *expected.behavior], atol=1e-4
        )
        assert (outcome.observations is None) == (expected.observations is None)
        if outcome.observations is not None and expected.observations is not None:
            np.testing.assert_allclose(outcome.observations, expected.observations, rtol=2e-3, atol=2e-2)


def test_a_std_of_each_parameter_moves_robots_like_one_std_of_all(tools: Toolkit) -> None:
    task, robot_model = build("ant")
    rollouts = GpuRollouts(GpuSetup(tools, task, robot_model, 5, Buffers(1, 1)), table(task), 4, 2)
    one = mixed_batch(task)
    batches = one, dataclasses.replace(one, std=np.nan, stds=np.full(task.parameters, STD, np.float32)), one
    statistics = np.zeros(task.observation_dim), np.ones(task.observation_dim)
    first, second, third = ([o.behavior for o in rollouts.evaluate_batch(batch, *statistics)] for batch in batches)
    rollouts.close()
    np.testing.assert_allclose(second, first, atol=1e-4)
    assert third == first


def test_noisy_walks_are_recorded_step_by_step(tools: Toolkit) -> None:
    task, robot_model = build("cheetah")
    torch, generator = tools.torch, np.random.default_rng(0)
    theta = np.stack([task.initial(generator) for _ in range(2)])
    noise = generator.standard_normal((2, 3, STEPS, task.layers[-1])).astype(np.float32)
    walks = GpuNoisyWalks(GpuSetup(tools, task, robot_model, 5, Buffers(1, 1)), 2, 3, STEPS)
    sampled = np.array([[True, False, False]] * 2)
    statistics = np.zeros(task.observation_dim), np.ones(task.observation_dim)
    found = walks.walk(torch.from_numpy(theta), torch.full((2, task.layers[-1]), 0.5), noise, sampled, statistics)
    walks.close()
    assert found.length.tolist() == [[STEPS] * 3] * 2 and found.sums[:, 0].tolist() == [STEPS] * 2
    for policy, rollout in np.ndindex(2, 3):
        walker, network = task.walker(5), task.network()
        network.load(theta[policy])
        observation = walker.reset()
        for step in range(STEPS):
            np.testing.assert_allclose(found.observations[policy, rollout, step], observation, atol=1e-3)
            action = network.act(observation) + np.float32(0.5) * noise[policy, rollout, step]
            np.testing.assert_allclose(found.actions[policy, rollout, step], action, atol=1e-3)
            observation, _ = walker.step(action)
        np.testing.assert_allclose(found.position[policy, rollout, -1], walker.position, atol=1e-4)
