"""Rollouts, their returns and their advantages."""

import numpy as np
from support.maml_point import STRIDE, Point, Walker

from ees_mpi.maml.learning import advantages, predicted, returns
from ees_mpi.maml.rollouts import Batch, Gaussian, sample
from ees_mpi.outcomes import Singles

LAYERS = (2, 4, 2)


def policy(mean: float = 0.0) -> Gaussian:
    flat = Point(hidden=(4,)).initial(np.random.default_rng(0))
    return Gaussian.of(LAYERS, flat, np.zeros(2, np.float32), np.full(2, mean), np.ones(2))


def batch(walker: Walker | None = None, direction: float = 0.0) -> Batch:
    noise = np.random.default_rng(1).standard_normal((3, 6, 2), np.float32)
    return sample(walker or Walker(), policy(), noise, direction, np.array([True, False, True]), 2)


def test_rewards_add_up_to_the_distance_walked_in_the_wanted_direction() -> None:
    right, left = batch(), batch(direction=180.0)
    np.testing.assert_allclose(right.rewards.sum(axis=1), right.final[:, 0], atol=1e-12)
    np.testing.assert_array_equal(left.rewards, -right.rewards)
    np.testing.assert_array_equal(left.actions, right.actions)


def test_actions_are_what_the_network_says_and_the_noise() -> None:
    made, acting = batch(), policy()
    acting.network.load(acting.mean)
    quiet = [acting.network.act(seen) for seen in made.observations[0]]
    noise = np.random.default_rng(1).standard_normal((3, 6, 2), np.float32)
    np.testing.assert_allclose(made.actions[0], quiet + noise[0], rtol=1e-6)


def test_only_sampled_rollouts_feed_the_statistics() -> None:
    made = batch()
    assert made.sums[0] == 12
    np.testing.assert_allclose(made.sums[1:3], made.observations[[0, 2]].sum(axis=(0, 1)), rtol=1e-6)


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
    assert made.length.tolist() == [6, 2, 6] and made.usable
    assert made.mask.sum() == 14
    for array in (made.observations, made.actions, made.rewards):
        assert not array[1, 2:].any()
    assert not advantages(made, 0.99)[1, 2:].any()


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
    assert np.isfinite(made.final).all()


def test_returns_are_discounted_sums_of_what_is_to_come() -> None:
    np.testing.assert_allclose(returns(np.array([[1.0, 2.0, 4.0]]), 0.5), [[3.0, 4.0, 4.0]])


def test_the_baseline_is_the_least_squares_fit_of_the_returns() -> None:
    made = batch()
    seen = made.observations.reshape(18, 2).astype(np.float64)
    time = np.tile(np.arange(6) / 100, 3)[:, None]
    features = np.hstack(
        [
            seen,
            seen**2,
            time,
            time**2,
            time**3,
            np.ones((18, 1)),
        ]
    )
    target = returns(made.rewards, 0.9).reshape(-1)
    ridge = np.vstack([features, np.sqrt(1e-5) * np.eye(features.shape[1])])
    weights, *_ = np.linalg.lstsq(ridge, np.concatenate([target, np.zeros(features.shape[1])]), rcond=None)
    np.testing.assert_allclose(predicted(made, 0.9).reshape(-1), features @ weights, atol=1e-6)


def test_advantages_have_mean_0_and_standard_deviation_1() -> None:
    values = advantages(batch(), 0.99)
    assert abs(values.mean()) < 1e-12
    np.testing.assert_allclose(values.std(), 1.0, rtol=1e-5)


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
