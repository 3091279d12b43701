"""Derivatives of all orders with the reference log-densities held fixed, and what tiles cost."""

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from ees_mpi.strategy import scg

torch.set_num_threads(1)

MU = 0.3


def numbers(seed: int, *shape: int, grad: bool = False) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_(grad)


def entropy(behaviors: Tensor, log_density: Tensor, reference: Tensor | None = None) -> scg.Node:
    z = scg.Stochastic("z", behaviors, log_density, reference=reference)
    other = z.twin("z'")
    kernel = scg.apply(lambda a, b: torch.exp(-((a - b) ** 2).sum()), z, other, name="phi")
    return scg.expect(-torch.log(scg.expect(kernel, over=other)), over=z)


@pytest.mark.parametrize("tile", [2**18, 14, 1])
def test_gradcheck_passes_on_a_nested_graph_twice_however_tiled(tile: int) -> None:
    behaviors, densities, reference = numbers(3, 6, 2), numbers(4, 6, grad=True), numbers(5, 6)

    def value(p: Tensor) -> Tensor:
        return scg.estimate(entropy(behaviors, p, reference), tile)

    assert gradcheck(value, densities)
    assert gradgradcheck(value, densities)


def reward(theta: Tensor, x1: Tensor, x2: Tensor) -> scg.Node:
    """theta in both distributions, in both functions, and a reference for one of them."""
    t = scg.Input("theta", theta)
    first = scg.Stochastic("x1", x1, lambda x, t: -0.5 * (x - t) ** 2, given=(t,), reference=-0.5 * (x1 - MU) ** 2)
    second = scg.Stochastic("x2", x2, lambda x, before, t: -0.5 * (x - t * before) ** 2, given=(first, t))
    inner = scg.expect((second * t + first) ** 2, over=second)
    return scg.expect(torch.exp(first * t) * torch.log(1 + inner), over=first)


def reward_by_hand(theta: Tensor, x1: Tensor, x2: Tensor) -> Tensor:
    r1 = torch.exp(-0.5 * (x1 - theta) ** 2 + 0.5 * (x1 - MU) ** 2)
    log_density = -0.5 * (x2 - theta * x1[:, None]) ** 2
    r2 = torch.exp(log_density - log_density.detach())
    inner = (r2 * (x2 * theta + x1[:, None]) ** 2).mean(1)
    return (r1 * torch.exp(x1 * theta) * torch.log(1 + inner)).mean()


@pytest.mark.parametrize("tile", [2**18, 10, 3, 1])
def test_the_value_and_its_first_four_derivatives_are_right_however_tiled(tile: int) -> None:
    theta = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    samples = numbers(11, 6), numbers(12, 6, 5)
    ours, by_hand = scg.estimate(reward(theta, *samples), tile), reward_by_hand(theta, *samples)
    for _ in range(5):
        torch.testing.assert_close(ours, by_hand, rtol=1e-12, atol=0)
        ours, by_hand = (torch.autograd.grad(each, theta, create_graph=True)[0] for each in (ours, by_hand))


class Largest(TorchDispatchMode):
    """Notes the largest tensor that any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = function(*args, **(kwargs or {}))
        for each in result if isinstance(result, (tuple, list)) else [result]:
            self.size = max(self.size, each.numel() if isinstance(each, Tensor) else 0)
        return result


def test_pairs_are_held_a_tile_at_a_time() -> None:
    count, tile, dim = 300, 3000, 2
    densities = torch.zeros(count, dtype=torch.float64, requires_grad=True)
    saved: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        saved.append(tensor.numel())
        return tensor

    with Largest() as largest:
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            value = scg.estimate(entropy(numbers(7, count, dim), densities), tile)
        torch.autograd.grad(value, densities, retain_graph=True)
    assert largest.size <= tile * dim
    assert sum(saved) < 20 * count
