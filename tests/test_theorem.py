from functools import partial

import numpy as np
import pytest
from scipy.stats import binomtest, norm
from theorem import Flipping, Function, Shallow, bounds, build, count_flips, flipping, grid, main

from ees_mpi.outcomes import Floats


def wave(x: Floats) -> Floats:
    return np.sin(3 * x.sum(axis=1))


def tent(x: Floats) -> Floats:
    return 1 - np.abs(x - 0.4).sum(axis=1)


def lower_limit(successes: int, count: int) -> float:
    """The exact (Clopper-Pearson) lower limit of a binomial probability, with confidence 0.99."""
    return float(binomtest(successes, count, alternative="greater").proportion_ci(0.99).low)


def constant(x: Floats) -> Floats:
    return np.full(len(x), 0.25)


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


@pytest.mark.parametrize("ratio", [0.5, 0.05])
def test_the_error_vanishes_with_d2_at_a_fixed_ratio(ratio: float) -> None:
    g, h = random_network(3, 2), random_network(4, 2)
    errors = [build(g, h, ratio * d2, d2).error for d2 in (1e-4, 1e-6, 1e-8)]
    np.testing.assert_allclose(errors[:-1], 100 * np.array(errors[1:]), rtol=0.05)


def test_the_network_has_five_hidden_layers_and_the_switch_is_a_weight_of_zero() -> None:
    network = build(random_network(5, 2), random_network(6, 2), 1e-5, 1e-4)
    assert len(network.widths) == 7 and len(network.layers) == 6
    assert network.parameters[network.switch] == 0
    marked = np.zeros(len(network.parameters))
    marked[network.switch] = 1.0
    weights, _ = network.mutant(marked).layers[1]
    assert weights[-1, 2] == 1.0  # from K to K'


@pytest.mark.slow
@pytest.mark.parametrize(("g", "h", "units"), [(wave, tent, 16), (constant, tent, 5)])
def test_flips_are_as_probable_as_the_bound_says(g: Function, h: Function, units: int) -> None:
    epsilon, count = 0.25, 1000
    network = flipping(g, h, epsilon, ratio=0.3, units=units)
    d2, generator = network.d2, np.random.default_rng(7)
    proved = bounds(network, lambda x: (x / d2 + 1) / 2)
    assert proved == pytest.approx((0.35, 0.35))
    flips = count_flips(network, g, h, epsilon, lambda size: generator.uniform(-d2, d2, size), count)
    assert lower_limit(min(flips), count) >= 0.35
    edges = count_flips(network, g, h, epsilon, lambda size: 0.999 * d2 * generator.choice([-1, 1], size), count)
    assert sum(edges) == count  # beyond d1 they all flip, whatever the other weights do


def test_the_bound_of_one_weight_alone_fails_where_others_go_astray() -> None:
    network = flipping(wave, tent, 0.25, ratio=0.3, units=16)
    d1, d2, generator = network.d1, network.d2, np.random.default_rng(8)

    def draw(size: int) -> Floats:
        near = generator.uniform(d1, d2, size) * generator.choice([-1, 1], size)
        return np.where(generator.random(size) < 0.8, near, 1e4 * near)

    flips = count_flips(network, wave, tent, 0.25, draw, 100)
    assert max(flips) < 10  # F(d2) - F(d1) is 0.4
    share_near = 0.8
    proved = bounds(network, lambda x: 0.5 + 0.5 * share_near * np.sign(x) * np.clip((abs(x) - d1) / (d2 - d1), 0, 1))
    assert 0 < proved[0] < 1e-10


def test_equal_constants_can_be_flipped_between_too() -> None:
    network = flipping(constant, constant, 0.1, 0.5, units=2)
    xi = np.random.default_rng(9).uniform(-network.d2, network.d2, len(network.parameters))
    xi[network.switch] = network.d2
    np.testing.assert_allclose(network.mutant(xi)(grid(1)), 0.25, atol=0.1)


def test_flips_are_at_least_as_frequent_as_proved() -> None:
    network, generator, count, proved = flipping(wave, tent, 0.2, 0.2), np.random.default_rng(0), 1000, []
    for share in (4, 3, 2):  # d2 over the standard deviation
        each = norm(0, network.d2 / share)
        draw = partial(each.rvs, random_state=generator)
        flips = count_flips(network, wave, tent, 0.2, draw, count)
        proved.append(bounds(network, each.cdf))
        assert all(lower_limit(seen, count) >= bound for seen, bound in zip(flips, proved[-1], strict=True))
    assert max(proved[0]) > 0.2 and max(proved[-1]) < 1e-3


def test_the_program_prints_what_was_measured_beside_what_is_proved(capsys: pytest.CaptureFixture[str]) -> None:
    main(count=20)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 9 and lines[1].split()[-2:] == ["0.4", "0.400"]
