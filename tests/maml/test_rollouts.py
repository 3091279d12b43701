"""Rollouts, their returns and their advantages."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from support.maml_point import STRIDE, Point, Walker

from ees_mpi.arrays import Singles
from ees_mpi.maml.evaluators import walk
from ees_mpi.maml.rollouts import CpuWalks, TaskRollouts, rollouts_of
from ees_mpi.policies import MLP
from ees_mpi.tasks.locomotion import Walked

LAYERS = (2, 4, 2)


def theta() -> Singles:
    flat = Point(hidden=(4,)).initial(np.random.default_rng(0))
    return np.concatenate([flat, np.zeros(2, np.float32)])


def batch(walker: Walker | None = None) -> TaskRollouts:
    task: Any = SimpleNamespace(layers=LAYERS, behavior_dim=2, walker=lambda seed: walker or Walker())
    noise = np.random.default_rng(1).standard_normal((1, 3, 6, 2), np.float32)
    statistics, observed = (np.zeros(2), np.ones(2)), np.array([[True, False, True]])
    return walk(CpuWalks(task, 0), torch.tensor(theta())[None], noise, observed, [0.0], statistics, 2)


def test_actions_are_what_the_network_says_and_the_noise() -> None:
    made, network = batch(), MLP(LAYERS)
    network.load(theta()[:-2])
    quiet = [network.act(seen) for seen in made.observations[0, 0].numpy()]
    noise = np.random.default_rng(1).standard_normal((3, 6, 2), np.float32)
    np.testing.assert_allclose(made.actions[0, 0], quiet + noise[0], rtol=1e-6)


def test_rewards_are_those_of_the_place_which_stands_last() -> None:
    position = torch.tensor([[[[9.0, 0.0, 0.0], [5.0, 1.0, 3.0]]]])  # of one rollout: a height, x and y, after one step
    nothing = torch.zeros(1, 1, 1, 1)
    walked = Walked(nothing, nothing, position, torch.ones(1, 1, dtype=torch.int64), torch.zeros(1, 3))
    rewards = [rollouts_of(walked, [angle], place=2).total.item() for angle in (0.0, 90.0, 180.0)]
    assert rewards == [1.0, 3.0, -1.0]


class Falling(Walker):
    """Ends after two steps in every second rollout."""

    def __init__(self) -> None:
        self._walks = self._steps = 0

    def reset(self) -> Singles:
        self._walks, self._steps = self._walks + 1, 0
        return super().reset()

    def step(self, action: Singles) -> tuple[Singles, bool]:
        self._steps += 1
        seen, _ = super().step(action)
        return seen, self._walks % 2 == 0 and self._steps == 2


def test_a_rollout_that_ends_early_is_padded() -> None:
    made = batch(Falling())
    assert made.length.tolist() == [[6, 2, 6]] and made.usable
    assert made.mask.sum() == 14
    for tensor in (made.observations, made.actions, made.rewards, made.advantages(0.99)):
        assert not tensor[0, 1, 2:].any()


class Exploding(Walker):
    """Is nowhere from the fourth step on."""

    def step(self, action: Singles) -> tuple[Singles, bool]:
        seen, done = super().step(action)
        if abs(self.position[0]) > 1.5 * STRIDE:
            self.position = (np.nan, np.nan)
        return seen, done


def test_a_rollout_that_blows_up_ends_with_its_last_good_step() -> None:
    made = batch(Exploding())
    assert (made.length < 6).any() and made.usable
    assert made.final.isfinite().all()


def test_the_baseline_is_the_least_squares_fit_of_the_returns() -> None:
    made = batch()
    seen = made.observations.reshape(18, 2).double().numpy()
    time = np.tile(np.arange(6) / 100, 3)[:, None]
    features = np.hstack([seen, seen**2, time, time**2, time**3, np.ones((18, 1))])
    target = made.returns(0.9)
    ridge = np.vstack([features, np.sqrt(1e-5) * np.eye(features.shape[1])])
    whole = np.concatenate([target.reshape(-1), np.zeros(features.shape[1])])
    weights, *_ = np.linalg.lstsq(ridge, whole, rcond=None)
    np.testing.assert_allclose(made.predicted(target).reshape(-1), features @ weights, atol=1e-6)


@pytest.mark.parametrize("walker", [Walker, Falling])
def test_advantages_have_mean_0_and_standard_deviation_1_over_the_steps_taken(walker: type[Walker]) -> None:
    made = batch(walker())
    values = made.advantages(0.99)[made.mask]
    assert abs(values.mean()) < 1e-12
    np.testing.assert_allclose(values.std(correction=0), 1.0, rtol=1e-5)


class Reusing(Walker):
    """Writes all its observations into one array."""

    def __init__(self) -> None:
        self._seen = np.zeros(2, np.float32)

    def reset(self) -> Singles:
        self._seen[:] = super().reset()
        return self._seen

    def step(self, action: Singles) -> tuple[Singles, bool]:
        self._seen[:], done = super().step(action)
        return self._seen, done


def test_a_walker_may_reuse_its_array() -> None:
    np.testing.assert_array_equal(batch(Reusing()).observations, batch().observations)
