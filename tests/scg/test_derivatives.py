"""Derivatives of all orders with the reference log-densities held fixed, and what tiles cost."""

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from ees_mpi import scg

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


def test_gradcheck_passes_on_the_operator() -> None:
    values, densities, reference = numbers(0, 5, 3, grad=True), numbers(1, 5, 1, grad=True), numbers(2, 5, 1)
    assert gradcheck(lambda v, p: scg.ratio_mean(v, p, reference), (values, densities))
    assert gradgradcheck(lambda v, p: scg.ratio_mean(v, p, reference), (values, densities))


@pytest.mark.parametrize("tile", [2**18, 14, 1])
def test_gradcheck_passes_on_a_nested_graph_twice_however_tiled(tile: int) -> None:
    behaviors, densities, reference = numbers(3, 6, 2), numbers(4, 6, grad=True), numbers(5, 6)

    def value(p: Tensor) -> Tensor:
        return scg.estimate(entropy(behaviors, p, reference), tile)

    assert gradcheck(value, densities)
    assert gradgradcheck(value, densities)


def hessian_by_ratio(mu: Tensor, z: Tensor, nested: bool) -> Tensor:
    """The second derivative with the ratios written out, the reference a number."""
    r = torch.exp(-0.5 * (z - mu) ** 2 + 0.5 * (z - MU) ** 2)
    value = (r * (z - (r * z).mean()) ** 4).mean() if nested else (r * z**4).mean()
    first = torch.autograd.grad(value, mu, create_graph=True)[0]
    return torch.autograd.grad(first, mu)[0]


@pytest.mark.parametrize("nested", [False, True])
def test_second_derivatives_are_right_with_the_reference_left_out(nested: bool) -> None:
    mu, z = torch.tensor(MU, dtype=torch.float64, requires_grad=True), MU + numbers(6, 400)
    node = scg.Stochastic("z", z, -0.5 * (z - mu) ** 2)
    other = node.twin("z'")
    center: scg.Node | float = scg.expect(other, over=other) if nested else 0.0
    value = scg.estimate(scg.expect((node - center) ** 4, over=node))
    first = torch.autograd.grad(value, mu, create_graph=True)[0]
    second = torch.autograd.grad(first, mu)[0]
    torch.testing.assert_close(second, hessian_by_ratio(mu, z, nested), rtol=1e-10, atol=0)


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


def graph_size(value: Tensor) -> int:
    """How many nodes autograd holds for a value."""
    seen, stack = set(), [value.grad_fn]
    while stack:
        node = stack.pop()
        if node is not None and node not in seen:
            seen.add(node)
            stack += [parent for parent, _ in node.next_functions]
    return len(seen)


def test_pairs_are_held_a_tile_at_a_time() -> None:
    count, tile, dim = 300, 3000, 2
    densities = torch.zeros(count, dtype=torch.float64, requires_grad=True)
    saved: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        saved.append(tensor.numel())
        return tensor

    with Largest() as largest, torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        value = scg.estimate(entropy(numbers(7, count, dim), densities), tile)
        torch.autograd.grad(value, densities, retain_graph=True)
    assert largest.size <= tile * dim
    assert sum(saved) < 20 * count
    assert graph_size(value) < 20 * count * count / tile


def test_the_tiles_do_not_show_in_value_or_gradient() -> None:
    behaviors, densities = numbers(8, 40, 2), torch.zeros(40, dtype=torch.float64, requires_grad=True)
    results = []
    for tile in (2**18, 410, 40, 3):
        value = scg.estimate(entropy(behaviors, densities), tile)
        results.append(torch.cat([value[None], *torch.autograd.grad(value, densities)]))
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], rtol=1e-13, atol=1e-16)


def test_without_gradients_the_value_is_the_same() -> None:
    behaviors, densities = numbers(9, 30, 2), torch.zeros(30, dtype=torch.float64, requires_grad=True)
    value = scg.estimate(entropy(behaviors, densities))
    with torch.no_grad():
        assert scg.estimate(entropy(behaviors, densities)) == value


def test_samples_changed_before_the_backward_pass_are_refused() -> None:
    behaviors, densities = numbers(10, 30, 2), torch.zeros(30, dtype=torch.float64, requires_grad=True)
    value = scg.estimate(entropy(behaviors, densities), tile=50)
    behaviors += 1
    with pytest.raises(scg.GraphError, match=r"node 'z': a tensor of it was changed in place"):
        value.backward()
