"""Nested expectations: against what the sample estimate is in closed form, and in the mean against the truth."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from ees_mpi.strategy import scg

torch.set_num_threads(1)

MU, STD = 0.7, 0.5


def normal(x: Tensor, mean: Tensor | float, std: Tensor | float = STD) -> Tensor:
    """The log-density of a Gaussian."""
    std = torch.as_tensor(std, dtype=torch.float64)
    return -0.5 * ((x - mean) / std) ** 2 - std.log() - 0.5 * math.log(2 * math.pi)


def parameter(value: float = MU) -> Tensor:
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def draws(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return MU + STD * torch.randn(*shape, generator=generator, dtype=torch.float64)


def variable(name: str, samples: Tensor, mu: Tensor) -> scg.Stochastic:
    return scg.Stochastic(name, samples, normal(samples, mu))


def gradient(output: scg.Node, mu: Tensor, **options: int) -> float:
    return float(torch.autograd.grad(scg.estimate(output, **options), mu, retain_graph=True)[0])


def log_mean_exp(mu: Tensor, outer: Tensor, inner: Tensor) -> scg.Node:
    """E_z[log E_z'[exp(z z')]] = mu^2 + (mu^2 + std^2) std^2 / 2."""
    z, other = variable("z", outer, mu), variable("z'", inner, mu)
    return scg.expect(torch.log(scg.expect(torch.exp(z * other), over=other)), over=z)


def three_levels(mu: Tensor, samples: list[Tensor]) -> scg.Node:
    """E_x[(x + E_y[(y + E_w[x y w])^2])^2], each variable normal."""
    x, y, w = (variable(name, each, mu) for name, each in zip("xyw", samples, strict=True))
    inmost = scg.expect(x * y * w, over=w)
    middle = scg.expect((y + inmost) ** 2, over=y)
    return scg.expect((x + middle) ** 2, over=x)


def three_levels_by_hand(mu: Tensor, samples: list[Tensor]) -> Tensor:
    x, y, w = samples
    rx, ry, rw = (torch.exp(normal(each, mu) - normal(each, MU)) for each in samples)
    inmost = (x[:, None, None] * y[:, None] * w * rw).mean(2)
    middle = ((y + inmost) ** 2 * ry).mean(1)
    return ((x + middle) ** 2 * rx).mean()


@pytest.mark.parametrize("tile", [2**18, 60, 7, 1])
def test_three_levels_match_the_ratios_written_out_by_hand_however_tiled(tile: int) -> None:
    mu, samples = parameter(), [draws(5, 9), draws(6, 10), draws(7, 11)]
    expected = float(torch.autograd.grad(three_levels_by_hand(mu, samples), mu)[0])
    assert gradient(three_levels(mu, samples), mu, tile=tile) == pytest.approx(expected, rel=1e-10)


def moment(mu: float, power: int) -> float:
    """E[z^power] of the Gaussian, power 0 to 4."""
    s = STD**2
    return [1.0, mu, mu**2 + s, mu**3 + 3 * mu * s, mu**4 + 6 * mu**2 * s + 3 * s**2][power]


def truth_of_three_levels(mu: float) -> float:
    """E_w[w] = mu, E_y[y^2] = mu^2 + std^2 =: m2, so the middle is m2 (1 + mu x)^2."""
    m2 = moment(mu, 2)
    polynomial = np.polynomial.Polynomial([m2, 1 + 2 * m2 * mu, m2 * mu**2]) ** 2
    return float(sum(c * moment(mu, power) for power, c in enumerate(polynomial.coef)))


def derivative(function: Callable[[float], float], at: float) -> float:
    return (function(at + 1e-6) - function(at - 1e-6)) / 2e-6


def chain(theta: Tensor, x1: Tensor, x2: Tensor) -> scg.Node:
    """The paper's Markov reward process: x1 ~ N(theta x0, 1), x2 ~ N(theta x1, 1), rewards x1^2 and x2^2, x0 = 1."""
    given = scg.Input("theta", theta)
    start = scg.Input("x0", torch.ones((), dtype=torch.float64))
    first = scg.Stochastic("x1", x1, lambda x, x0, t: normal(x, t * x0, 1.0), given=(start, given))
    second = scg.Stochastic("x2", x2, lambda x, before, t: normal(x, t * before, 1.0), given=(first, given))
    f1, f2 = scg.apply(torch.square, first, name="f1"), scg.apply(torch.square, second, name="f2")
    return scg.expect(f1 + scg.expect(f2, over=second), over=first)


def steps_of_chain(seed: int, count: int, each: int) -> tuple[Tensor, Tensor]:
    """Draw both steps of the chain with theta = 0.6."""
    generator = torch.Generator().manual_seed(seed)
    x1 = 0.6 + torch.randn(count, generator=generator, dtype=torch.float64)
    return x1, 0.6 * x1[:, None] + torch.randn(count, each, generator=generator, dtype=torch.float64)


def test_conditional_distributions_give_the_scores_of_both_steps() -> None:
    theta, (x1, x2) = parameter(0.6), steps_of_chain(8, 50, 3)
    first, second = (x1 - 0.6), (x2 - 0.6 * x1[:, None]) * x1[:, None]
    expected = ((x1**2 + (x2**2).mean(1)) * first).mean() + (x2**2 * second).mean()
    assert gradient(chain(theta, x1, x2), theta) == pytest.approx(float(expected), rel=1e-10)


@pytest.mark.slow
def test_known_gradients_are_met_in_the_mean() -> None:
    mu, theta = parameter(), parameter(0.6)
    truths = {
        "log": derivative(lambda m: m**2 + (m**2 + STD**2) * STD**2 / 2, MU),
        "three": derivative(truth_of_three_levels, MU),
        "cube": derivative(lambda m: moment(m, 3), MU),
        "chain": derivative(lambda t: (t**2 + 1) + (t**2 * (t**2 + 1) + 1), 0.6),
    }
    estimates: dict[str, list[float]] = {name: [] for name in truths}
    for seed in range(60):
        z = variable("z", draws(100 + seed, 4000), mu)
        estimates["cube"].append(gradient(scg.expect(z**3, over=z), mu))
        estimates["log"].append(gradient(log_mean_exp(mu, draws(200 + seed, 700), draws(300 + seed, 700)), mu))
        samples = [draws(1000 * place + seed, 60) for place in (1, 2, 3)]
        estimates["three"].append(gradient(three_levels(mu, samples), mu))
        estimates["chain"].append(gradient(chain(theta, *steps_of_chain(seed, 4000, 1)), theta))
    # The estimate of a nested expectation from n samples is off by O(1/n): below the standard error here.
    for name, truth in truths.items():
        error = np.std(estimates[name], ddof=1) / math.sqrt(60)
        assert abs(np.mean(estimates[name]) - truth) < 4 * error < 0.4 * abs(truth)


def test_samples_and_expectations_may_be_vectors() -> None:
    mu, z = parameter(), draws(11, 100, 3)
    node = scg.Stochastic("z", z, normal(z, mu).sum(1))
    other = node.twin("z'")
    spread = scg.expect(torch.sum((node - scg.expect(other, over=other)) ** 2), over=node)
    score = ((z - MU) / STD**2).sum(1)
    expected = (((z - z.mean(0)) ** 2).sum(1) * score).mean()
    assert gradient(spread, mu) == pytest.approx(float(expected), rel=1e-10)
    parts = scg.expect(node[1] * 2 / (1 + node[0] ** 2) - node[2], over=node)
    assert gradient(parts, mu) == pytest.approx(
        float(((z[:, 1] * 2 / (1 + z[:, 0] ** 2) - z[:, 2]) * score).mean()), rel=1e-10
    )


def test_sum_and_abs_are_those_of_one_sample() -> None:
    z = scg.Stochastic("z", torch.tensor([[[1.0, -2.0], [3.0, 0.0]], [[-5.0, 1.0], [1.0, 0.0]]]), torch.zeros(2))
    graph = scg.expect(abs(z).sum(1)[0] + z.sum(0, 1) * 10, over=z)
    assert str(graph) == "E_z[(item(sum(abs(z)), 0) + (sum(z) * 10))]"
    assert float(scg.estimate(graph)) == ((3 + 20) + (6 - 30)) / 2
    y = scg.Stochastic("y", torch.tensor([1.0, -3.0]), torch.zeros(2))
    assert float(scg.estimate(scg.expect(abs(y.sum()), over=y))) == 2.0


def test_an_array_of_numpy_is_a_constant_on_either_side() -> None:
    z = scg.Stochastic("z", torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.zeros(2))
    weights = np.array([2.0, 3.0])
    for node in (weights * z, z * weights, np.float64(2.0) * z * (weights / 2)):
        assert float(scg.estimate(scg.expect(torch.sum(node), over=z))) == 13.0
    with pytest.raises(TypeError, match="__array_ufunc__"):
        np.exp(weights * z)  # functions of numpy are refused


def test_iterating_over_a_node_raises() -> None:
    with pytest.raises(TypeError, match="not iterable"):
        list(variable("z", draws(12, 10), parameter()))
