from functools import partial

import numpy as np
import pytest
from scipy.stats import binomtest, norm
from theorem import Flipping, Shallow, bounds, build, count_flips, flipping, grid

from ees_mpi.arrays import Floats


def wave(x: Floats) -> Floats:
    return np.sin(3 * x.sum(axis=1))


def tent(x: Floats) -> Floats:
    return 1 - np.abs(x - 0.4).sum(axis=1)


def lower_limit(successes: int, count: int) -> float:
    """The exact (Clopper-Pearson) lower limit of a binomial probability, with confidence 0.99."""
    return float(binomtest(successes, count, alternative="greater").proportion_ci(0.99).low)


def random_network(seed: int, inputs: int) -> Shallow:
    generator = np.random.default_rng(seed)
    a, t, v = generator.normal(size=(inputs, 5)), generator.normal(size=5), generator.normal(size=5)
    return Shallow(a, t, v, float(generator.normal()))


def extremes(network: Flipping, generator: np.random.Generator, up: bool) -> Floats:
    """A perturbation at the edge of what the theorem allows: every weight by almost d2, w_k by a bit more than d1."""
    xi = 0.999999 * network.d2 * generator.choice([-1.0, 1.0], len(network.parameters))
    if generator.random() < 0.1:
        xi = np.abs(xi) * generator.choice([-1.0, 1.0])
    xi[network.switch] = (1 if up else -1) * generator.choice([1.000001 * network.d1, 0.999999 * network.d2])
    return xi


@pytest.mark.parametrize("inputs", [1, 2, 3])
@pytest.mark.parametrize("ratio", [0.9, 0.3, 0.02])
def test_no_perturbation_within_d2_goes_further_than_proved(inputs: int, ratio: float) -> None:
    g, h = random_network(1, inputs), random_network(2, inputs)
    generator, x = np.random.default_rng(0), grid(inputs)
    for d2 in (1e-2, 1e-5):
        network = build(g, h, ratio * d2, d2)
        for up, goal in ((True, g(x)), (False, h(x))):
            worst = max(np.abs(network.mutant(extremes(network, generator, up))(x) - goal).max() for _ in range(60))
            assert worst <= network.error
            assert worst > 0.1 * network.error  # what is proved is not far from what happens


def test_flips_are_at_least_as_frequent_as_proved() -> None:
    network, generator, count, proved = flipping(wave, tent, 0.2, 0.2), np.random.default_rng(0), 1000, []
    for share in (4, 3, 2):  # d2 over the standard deviation
        each = norm(0, network.d2 / share)
        draw = partial(each.rvs, random_state=generator)
        flips = count_flips(network, wave, tent, 0.2, draw, count)
        proved.append(bounds(network, each.cdf))
        assert all(lower_limit(seen, count) >= bound for seen, bound in zip(flips, proved[-1], strict=True))
    assert max(proved[0]) > 0.2 and max(proved[-1]) < 1e-3
