import numpy as np
import pytest

from ees_mpi.generation import mean_std
from ees_mpi.policies import HIDDEN, MLP, observation_sums

CHEETAH = (26, *HIDDEN, 6)


def flat_of(policy: MLP) -> np.ndarray:
    generator = np.random.default_rng(0)
    return policy.initial(generator) + np.float32(0.1) * generator.standard_normal(policy.count, np.float32)


def observations(size: int, count: int = 20, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, (count, size)).astype(np.float32)


def by_the_book(sizes: tuple[int, ...], flat: np.ndarray, observation: np.ndarray) -> np.ndarray:
    """Evaluate the policy in float64, layer by layer."""
    values, rest = np.clip(observation.astype(np.float64), -5, 5), flat.astype(np.float64)
    for layer in range(1, len(sizes)):
        fan_in, fan_out = sizes[layer - 1], sizes[layer]
        weights, bias, rest = np.split(rest, [fan_in * fan_out, (fan_in + 1) * fan_out])
        values = values @ weights.reshape(fan_in, fan_out) + bias
        values = np.tanh(values) if layer < len(sizes) - 1 else values
    return values


@pytest.mark.parametrize("sizes", [(4, 2), (26, 64, 32, 16, 6)])
def test_actions_are_those_of_a_tanh_network_on_w1_b1_w2_b2(sizes: tuple[int, ...]) -> None:
    policy = MLP(sizes)
    flat = flat_of(policy)
    policy.load(flat)
    for observation in observations(sizes[0]):
        action = policy.act(observation)
        assert action.dtype == np.float32
        np.testing.assert_allclose(action, by_the_book(sizes, flat, observation), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("sizes", "activation"), [(CHEETAH, "tanh"), ((3, 5, 2), "silu")])
def test_bits_do_not_depend_on_where_the_vector_and_the_buffers_lie(sizes: tuple[int, ...], activation: str) -> None:
    flat = flat_of(MLP(sizes))
    seen = observations(sizes[0], 5)
    expected = None
    for offset in range(17):
        policy = MLP(sizes, activation=activation)
        table = np.empty(policy.count + 40, np.float32)
        view = table[offset : offset + policy.count]
        view[:] = flat
        policy.load(view)
        actions = [policy.act(observation).tobytes() for observation in seen]
        expected = expected or actions
        assert actions == expected


def test_the_start_has_columns_of_norm_1_then_a_hundredth_and_biases_of_0() -> None:
    policy = MLP(CHEETAH)
    flat = policy.initial(np.random.default_rng(3))
    assert flat.dtype == np.float32
    assert flat.shape == (74_246,)
    rest = flat
    for fan_in, fan_out, norm in ((26, 256, 1), (256, 256, 1), (256, 6, 0.01)):
        weights, bias, rest = np.split(rest, [fan_in * fan_out, (fan_in + 1) * fan_out])
        columns = np.linalg.norm(weights.reshape(fan_in, fan_out), axis=0)
        np.testing.assert_allclose(columns, norm, rtol=1e-5)
        assert not bias.any()
    assert flat.tobytes() == policy.initial(np.random.default_rng(3)).tobytes()
    assert flat.tobytes() != policy.initial(np.random.default_rng(4)).tobytes()


def test_observations_are_normalised_in_float32_and_clipped_to_5() -> None:
    mean, std = np.array([1.0, 2.0, 3.0]), np.array([0.1, 2.0, 0.5])
    plain, normalising = MLP((3, 4, 2)), MLP((3, 4, 2))
    flat = flat_of(plain)
    plain.load(flat)
    normalising.load(flat)
    normalising.normalise(mean, std)
    seen = np.array([1.05, -3.0, 99.0], np.float32)
    expected = (seen - mean.astype(np.float32)) / std.astype(np.float32)
    expected[2] = 5
    assert normalising.act(seen).tobytes() == plain.act(expected).tobytes()


def test_sums_give_mean_and_standard_deviation_of_all_that_was_added() -> None:
    seen = observations(26, 300)
    sums = sum((observation_sums(list(rollout)) for rollout in np.split(seen, [10, 150])), np.zeros(53))
    mean, std = mean_std(sums)
    assert sums[0] == 300
    assert mean.dtype == std.dtype == np.float64
    np.testing.assert_allclose(mean, seen.astype(np.float64).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(std, seen.astype(np.float64).std(axis=0), rtol=1e-12)
