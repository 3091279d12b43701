"""The value of a graph as a torch tensor, which autograd can differentiate any number of times.

Values over several random variables at once (the z, z' of MaxEnt) are made and averaged a tile of rows at a time, and
made again in the backward pass: of N x N pairs no more than a tile is ever held. (A second derivative is right, too,
but autograd then keeps the pairs.)
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ees_mpi.scg.nodes import Deterministic, Expectation, Input, Node, Stochastic
from ees_mpi.scg.ratios import ratio_mean
from ees_mpi.scg.rules import check, walk

TILE = 2**18  # a few megabytes for each operation: larger is no faster

Axes = Sequence[Stochastic]


def estimate(output: Node, tile: int = TILE) -> Tensor:
    """Return the method-of-moments estimate of a graph's output; its gradient is the score-function estimate.

    tile: how many samples, or pairs or triples of samples, are held at a time.
    """
    check(output)
    return _Estimator(tile, {}, {}).value(output)


class _Estimator:
    """Values of nodes, each computed once; `windows`: of some random variables only a part of the samples."""

    def __init__(self, tile: int, windows: dict[Stochastic, slice], known: dict[Node, Tensor]):
        self._tile, self._windows, self._known = tile, windows, known

    def value(self, node: Node) -> Tensor:
        """Return a node's value: an axis for each random variable that it varies with, then its own shape."""
        if node not in self._known:
            self._known[node] = self._compute(node)
        return self._known[node]

    def _compute(self, node: Node) -> Tensor:
        match node:
            case Input():
                return node.value
            case Stochastic():
                return self._seen(node.samples, node.axes)
            case Deterministic():
                return self._mapped(node.compute, node.parents, node.axes)
            case Expectation():
                return self._expectation(node)
            case _:
                raise TypeError(f"expected a node of a graph, got {node!r}")

    def _expectation(self, node: Expectation) -> Tensor:
        axes = sorted({*node.body.axes, *node.over.axes}, key=lambda axis: axis.created)
        longest = max(node.axes, key=self._size, default=node.over)
        if self._total(axes) > self._tile and longest is not node.over and self._size(longest) > 1:
            return self._in_tiles(node, longest, max(1, self._tile * self._size(longest) // self._total(axes)))
        body = self.value(node.body)
        inner = body.dim() - len(node.body.axes)
        densities, reference = self._densities(node.over)
        densities = _aligned(densities, node.over.axes, axes, inner)
        reference = None if reference is None else _aligned(reference, node.over.axes, axes, inner)
        return ratio_mean(_aligned(body, node.body.axes, axes), densities, reference, axes.index(node.over))

    def _densities(self, node: Stochastic) -> tuple[Tensor, Tensor | None]:
        """Return the log-densities of the samples, and those they were drawn with, where given."""
        reference = None if node.reference is None else self._seen(node.reference, node.axes)
        if isinstance(node.log_density, Tensor):
            return self._seen(node.log_density, node.axes), reference
        densities = self._mapped(node.log_density, (node, *node.given), node.axes)
        node.check_densities("log_density", densities, tuple(self._size(axis) for axis in node.axes))
        return densities, reference

    def _in_tiles(self, node: Expectation, axis: Stochastic, rows: int) -> Tensor:
        """Compute an expectation for some samples of another random variable at a time."""
        parts = walk(node)
        # What the tiles share is made first: a tile that is made again must do all that it did the first time.
        for child in parts:
            for part in child.parents if axis in child.axes or child is node else ():
                if axis not in part.axes and self._total(part.axes) <= self._tile:
                    self.value(part)
        shared = {part: value for part, value in self._known.items() if axis not in part.axes}
        window = self._windows.get(axis, slice(0, axis.count))

        def tile(start: int) -> Tensor:
            for part in parts:
                part.check_unchanged()
            windows = {**self._windows, axis: slice(start, min(start + rows, window.stop))}
            return _Estimator(self._tile, windows, dict(shared)).value(node)

        starts = range(window.start, window.stop, rows)
        return torch.cat([_forgetful(tile, start) for start in starts], dim=node.axes.index(axis))

    def _mapped(self, function: Callable[..., Tensor], parents: Sequence[Node], axes: Axes) -> Tensor:
        """Call a function of one sample on all samples."""
        for axis in reversed(axes):
            function = torch.vmap(function, tuple(0 if axis in parent.axes else None for parent in parents))
        return function(*map(self.value, parents))

    def _seen(self, tensor: Tensor, axes: Axes) -> Tensor:
        return tensor[tuple(self._windows.get(axis, slice(None)) for axis in axes)]

    def _size(self, axis: Stochastic) -> int:
        window = self._windows.get(axis, slice(0, axis.count))
        return int(window.stop - window.start)

    def _total(self, axes: Axes) -> int:
        return math.prod(map(self._size, axes))


def _aligned(tensor: Tensor, axes: Axes, among: Axes, inner: int = 0) -> Tensor:
    """Give a tensor that has `axes` an axis of length 1 for each of the others `among`, and `inner` more at the end."""
    return tensor[(*(slice(None) if axis in axes else None for axis in among), ..., *[None] * inner)]


def _forgetful(function: Callable[[int], Tensor], start: int) -> Tensor:
    """Call a function, keeping nothing of its insides: they are made again in the backward pass."""
    if not torch.is_grad_enabled():
        return function(start)
    value: Any = checkpoint(function, start, use_reentrant=False, preserve_rng_state=False)
    return value  # type: ignore[no-any-return]
