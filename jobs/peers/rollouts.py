"""Rollouts of Gymnasium's HalfCheetah-v5 with one network: our task, EvoTorch's GymNE, and a loop around Gymnasium."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

ROLLOUTS, STEPS = 12, 200


def physics_clock() -> list[float]:
    """Add up the seconds inside MuJoCo's step in the returned list."""
    import mujoco

    spent, real = [0.0], mujoco.mj_step

    def timed(*words: Any, **more: Any) -> None:
        start = time.perf_counter()
        real(*words, **more)
        spent[0] += time.perf_counter() - start

    mujoco.mj_step = timed
    return spent


def cheetah() -> tuple[Any, list[tuple[np.ndarray, np.ndarray]]]:
    """Return our task, and weights [in, out] and biases of the network that all rollouts have."""
    import ees_mpi

    task = ees_mpi.load_config("gymnasium-cheetah-maxent", {"task.steps": STEPS}).task
    z = task.initial(np.random.default_rng(0))
    return task, [(layer[:-1], layer[-1]) for layer in task.network().matrices(z)]


def our_rollouts() -> Callable[[], object]:
    """Return a function that makes one rollout with our task."""
    import msgspec

    task, network = cheetah()
    robot = msgspec.structs.replace(task, device="cpu").open(0)
    z, zero = np.concatenate([part.ravel() for layer in network for part in layer]), np.zeros(17)
    return lambda: robot.evaluate(0, z, zero, zero + 1, False)


def evotorch_rollouts() -> Callable[[], object]:
    """Return a function that makes one rollout with EvoTorch's GymNE."""
    import torch
    from evotorch.neuroevolution import GymNE

    torch.set_num_threads(1)
    layers = "Linear(obs_length, 256) >> Tanh() >> Linear(256, 256) >> Tanh() >> Linear(256, act_length)"
    problem = GymNE("HalfCheetah-v5", layers, episode_length=STEPS, observation_normalization=True)
    batch = problem.generate_batch(1)
    z = np.concatenate([part.T.ravel() for layer in cheetah()[1] for part in layer])
    batch.set_values(torch.tensor(z)[None])

    def rollout() -> None:
        batch.forget_evals()
        problem.evaluate(batch)

    return rollout


def own_rollouts() -> Callable[[], object]:
    """Return a function that makes one rollout with a loop around Gymnasium, and a network in numpy."""
    import gymnasium

    env, network = gymnasium.make("HalfCheetah-v5"), cheetah()[1]
    shift, scale = np.zeros(17), np.ones(17)

    def rollout() -> None:
        observation, _ = env.reset(seed=0)
        for _ in range(STEPS):
            hidden = np.clip((observation - shift) / scale, -5, 5).astype(np.float32)
            for weights, bias in network[:-1]:
                hidden = np.tanh(hidden @ weights + bias)
            observation, *_ = env.step(hidden @ network[-1][0] + network[-1][1])

    return rollout


def time_rollouts(name: str, run: int) -> dict[str, float]:
    """Time rollouts of 200 steps: CPU seconds without a clock around the physics, then the share of it with one."""
    makers = {"ees_mpi-maxent": our_rollouts, "evotorch": evotorch_rollouts}
    rollout = makers.get(name, own_rollouts)()
    rollout()
    found = []
    for _ in range(3):
        start = time.process_time()
        for _ in range(ROLLOUTS):
            rollout()
        found.append(ROLLOUTS * STEPS / (time.process_time() - start))
    spent = physics_clock()
    start = time.perf_counter()
    for _ in range(ROLLOUTS):
        rollout()
    return {"steps_per_s": max(found), "physics": spent[0] / (time.perf_counter() - start)}
