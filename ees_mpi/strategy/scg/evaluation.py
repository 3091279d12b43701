"""The value of a graph as a torch tensor, which autograd can differentiate any number of times.

An expectation is a sample mean that is weighted with likelihood ratios (Gajewski et al. 2019, supplement S3):

    L(xi) = (1/N) sum_i f_i exp(log p(z_i; xi) - log p(z_i; xi'))

As a function of xi, L is the importance-sampling estimate of E[f]. So its derivatives of every order at xi = xi'
estimate the derivatives of E[f].

Values that vary with several random variables (the z and z' of MaxEnt) are computed and averaged one tile of rows at a
time. So the N x N pairs are never in memory together.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ees_mpi.errors import GraphError
from ees_mpi.strategy.scg.nodes import Deterministic, Expectation, Leaf, Node, Stochastic, check, walk

TILE = 2**18  # samples; a few megabytes for each operation, larger tiles are not faster

Axes = Sequence[Stochastic]
Make = Callable[[int, int, Sequence[Tensor]], Tensor]  # first row, end, tensors -> the tile


def estimate(output: Node, tile: int = TILE) -> Tensor:
    """Return the method-of-moments estimate of a graph's output; its gradient is the score-function estimate.

    tile: the number of samples, or pairs or triples of samples, that are in memory at a time.
    """
    check(output)
    return _Evaluator(tile, {}, {}, {}, set()).value(output)


@dataclass(frozen=True)
class _Evaluator:
    """Computes the value of each node once."""

    tile: int
    windows: dict[Stochastic, slice]  # random variables of which only some samples are used
    leaves: dict[Leaf, Tensor]  # tensors that replace those of leaves
    known: dict[Node, Tensor]  # values that are already computed
    checked: set[Node]  # nodes whose functions are already checked

    def value(self, node: Node) -> Tensor:
        """Return the value of a node: one axis for each of its random variables, then the shape of one sample."""
        if node not in self.known:
            self.known[node] = self._compute(node)
        return self.known[node]

    def _compute(self, node: Node) -> Tensor:
        match node:
            case Leaf():
                tensor = self.leaves.get(node, node.tensor)
                return tensor[tuple(self.windows.get(axis, slice(None)) for axis in node.axes)]
            case Deterministic():
                return self._mapped(node)
            case Expectation():
                return self._expectation(node)
            case _:
                raise TypeError(f"expected a node of a graph, got {node!r}")

    def _mapped(self, node: Deterministic) -> Tensor:
        """Apply a function of one sample to all samples."""
        values = [self.value(parent) for parent in node.parents]
        if node not in self.checked:
            _check_closed(node, values)
            self.checked.add(node)
        function: Callable[..., Tensor] = node.compute
        for axis in reversed(node.axes):
            function = torch.vmap(function, tuple(0 if axis in parent.axes else None for parent in node.parents))
        return function(*values)

    def _expectation(self, node: Expectation) -> Tensor:
        axes = sorted({*node.body.axes, *node.over.axes}, key=lambda axis: axis.created)
        longest = max(node.axes, key=self._size, default=node.over)
        if self._total(axes) > self.tile and longest is not node.over and self._size(longest) > 1:
            return self._in_tiles(node, longest, max(1, self.tile * self._size(longest) // self._total(axes)))
        over, body = node.over, self.value(node.body)
        densities = self.value(over.log_density)
        if not isinstance(over.log_density, Leaf):
            over.check_densities("log_density", densities, tuple(map(self._size, over.axes)))
        fixed = densities if over.reference is None else self.value(over.reference)  # those of the samples when drawn
        inner = body.dim() - len(node.body.axes)
        densities, fixed = (_aligned(each, over.axes, axes, inner) for each in (densities, fixed))
        ratios = torch.exp(densities - fixed.detach())
        return (_aligned(body, node.body.axes, axes) * ratios).mean(axes.index(over))

    def _in_tiles(self, node: Expectation, axis: Stochastic, rows: int) -> Tensor:
        """Return an expectation, computed for some samples of another random variable at a time."""
        parts = walk(node, lambda part: part.needs)
        varying = [part for part in parts if axis in part.axes]
        needed = dict.fromkeys(need for part in varying for need in part.needs if axis not in need.axes)
        shared = [part for part in needed if self._total(part.axes) <= self.tile]
        leaves = [part for part in parts if isinstance(part, Leaf) and part not in shared]
        tensors = [*map(self.value, shared), *(self.leaves.get(leaf, leaf.tensor) for leaf in leaves)]
        window = self.windows.get(axis, slice(0, axis.count))

        def make(start: int, stop: int, given: Sequence[Tensor]) -> Tensor:
            known: dict[Node, Tensor] = dict(zip(shared, given, strict=False))
            own = dict(zip(leaves, given[len(shared) :], strict=True))
            part = slice(window.start + start, window.start + stop)
            return _Evaluator(self.tile, {**self.windows, axis: part}, own, known, self.checked).value(node)

        size, dim = self._size(axis), node.axes.index(axis)
        return _Tiled.apply(make, size, rows, dim, *tensors)  # type: ignore[no-untyped-call]

    def _size(self, axis: Stochastic) -> int:
        window = self.windows.get(axis, slice(0, axis.count))
        return int(window.stop - window.start)

    def _total(self, axes: Axes) -> int:
        return math.prod(map(self._size, axes))


def _aligned(tensor: Tensor, axes: Axes, among: Axes, inner: int = 0) -> Tensor:
    """Insert axes of length 1 for all `among` that are not in the `axes` of a tensor, and `inner` more at the end."""
    return tensor[(*(slice(None) if axis in axes else None for axis in among), ..., *[None] * inner)]


def _check_closed(node: Deterministic, values: Sequence[Tensor]) -> None:
    """Raise a GraphError if a function depends on a tensor with a gradient that is not among its arguments."""
    sample = [value[(0,) * len(parent.axes)].detach() for value, parent in zip(values, node.parents, strict=True)]
    with torch.enable_grad():
        result = node.compute(*sample)
    if not isinstance(result, Tensor):
        raise GraphError(f"node {node.name!r}: expected its function to return a tensor, got {type(result).__name__}")
    if result.requires_grad:
        raise GraphError(
            f"node {node.name!r}: its function uses a tensor that requires a gradient and is not among its arguments; "
            "pass it as one (for a log-density: as an Input in `given`), so that it is part of the graph"
        )


class _Tiled(torch.autograd.Function):
    """Computes one tile of rows at a time, to save memory; the backward pass computes each tile again.

    The result has `size` rows along `dim`. Everything in a tile that requires a gradient must come from `tensors`.
    There is one autograd node for all tiles, and no tensor outlives its tile: small tensors between large ones would
    keep the allocator from reusing memory. Derivatives of higher order are correct, but keep all tiles in memory. Torch
    refuses forward mode and the transforms of torch.func.
    """

    @staticmethod
    def forward(ctx: Any, make: Make, size: int, rows: int, dim: int, *tensors: Tensor) -> Tensor:
        ctx.settings = make, size, rows, dim
        ctx.save_for_backward(*tensors)
        result: Tensor | None = None
        for start, stop in _tiles(size, rows):
            value = make(start, stop, tensors)
            if result is None:
                result = value.new_empty((*value.shape[:dim], size, *value.shape[dim + 1 :]))
            result.narrow(dim, start, stop - start).copy_(value)
        if result is None:
            raise ValueError("expected at least one row, got none")
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        make, size, rows, dim = ctx.settings
        again = torch.is_grad_enabled()  # the gradient will be differentiated
        needed = [place for place, need in enumerate(ctx.needs_input_grad[4:]) if need]
        sums = {place: torch.zeros_like(ctx.saved_tensors[place]) for place in needed}
        for start, stop in _tiles(size, rows):
            part = grad.narrow(dim, start, stop - start)
            gradients = _gradients(make, start, stop, ctx.saved_tensors, needed, part, again)
            for place, gradient in zip(needed, gradients, strict=True):
                if gradient is not None:
                    sums[place] = sums[place] + gradient if again else sums[place].add_(gradient)
        return None, None, None, None, *map(sums.get, range(len(ctx.saved_tensors)))


def _gradients(
    make: Make, start: int, stop: int, tensors: Sequence[Tensor], needed: Sequence[int], grad: Tensor, again: bool
) -> Sequence[Tensor | None]:
    """Return the gradient of one tile with respect to each needed tensor."""
    with torch.enable_grad():
        # Separate copies, because one tensor may have been computed from another.
        own = [
            tensor.view_as(tensor) if again else tensor.detach().requires_grad_(place in needed)
            for place, tensor in enumerate(tensors)
        ]
        value = make(start, stop, own)
        if not value.requires_grad:
            return [None] * len(needed)
        wanted = [own[place] for place in needed]
        return torch.autograd.grad(value, wanted, grad, create_graph=again, allow_unused=True)


def _tiles(size: int, rows: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + rows, size)) for start in range(0, size, rows))
