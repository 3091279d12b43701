"""Nested expectations against what the sample estimate is in closed form."""

import math

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
