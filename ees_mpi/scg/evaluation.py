"""The value of a graph as a torch tensor, which autograd can differentiate any number of times.

Values over several random variables at once (the z, z' of MaxEnt) are made and averaged a tile of rows at a time: of
N x N pairs no more than a tile is ever held.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ees_mpi.errors import GraphError
from ees_mpi.scg.nodes import Deterministic, Expectation, Leaf, Node, Stochastic
from ees_mpi.scg.ratios import ratio_mean
from ees_mpi.scg.rules import check, walk
from ees_mpi.scg.tiles import tiled

TILE = 2**18  # a few megabytes for each operation: larger is no faster

Axes = Sequence[Stochastic]


def estimate(output: Node, tile: int = TILE) -> Tensor:
    """Return the method-of-moments estimate of a graph's output; its gradient is the score-function estimate.

    tile: how many samples, or pairs or triples of samples, are held at a time.
    """
    check(output)
    return _Evaluator(tile, {}, {}, {}, set()).value(output)


class _Evaluator:
    """Values of nodes, each computed once.

    windows: of some random variables, only a part of the samples; leaves: what stands for the tensors of some leaves.
    """

    def __init__(
        self,
        tile: int,
        windows: dict[Stochastic, slice],
        leaves: dict[Leaf, Tensor],
        known: dict[Node, Tensor],
        checked: set[Node],
    ):
        self._tile, self._windows, self._leaves = tile, windows, leaves
        self._known, self._checked = known, checked

    def value(self, node: Node) -> Tensor:
        """Return a node's value: an axis for each random variable that it varies with, then its own shape."""
        if node not in self._known:
            self._known[node] = self._compute(node)
        return self._known[node]

    def _compute(self, node: Node) -> Tensor:
        match node:
            case Leaf():
                tensor = self._leaves.get(node, node.tensor)
                return tensor[tuple(self._windows.get(axis, slice(None)) for axis in node.axes)]
            case Deterministic():
                return self._mapped(node)
            case Expectation():
                return self._expectation(node)
            case _:
                raise TypeError(f"expected a node of a graph, got {node!r}")

    def _mapped(self, node: Deterministic) -> Tensor:
        """Call a function of one sample on all samples."""
        values = [self.value(parent) for parent in node.parents]
        if node not in self._checked:
            _check_closed(node, values)
            self._checked.add(node)
        function: Callable[..., Tensor] = node.compute
        for axis in reversed(node.axes):
            function = torch.vmap(function, tuple(0 if axis in parent.axes else None for parent in node.parents))
        return function(*values)

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
        densities = self.value(node.log_density)
        if not isinstance(node.log_density, Leaf):
            node.check_densities("log_density", densities, tuple(map(self._size, node.axes)))
        return densities, None if node.reference is None else self.value(node.reference)

    def _in_tiles(self, node: Expectation, axis: Stochastic, rows: int) -> Tensor:
        """Compute an expectation for some samples of another random variable at a time."""
        parts = walk(node, lambda part: part.needs)
        varying = [part for part in parts if axis in part.axes]
        needed = dict.fromkeys(part for each in varying for part in each.needs if axis not in part.axes)
        shared = [part for part in needed if self._total(part.axes) <= self._tile]
        leaves = [part for part in parts if isinstance(part, Leaf) and part not in shared]
        tensors = [*map(self.value, shared), *(self._leaves.get(leaf, leaf.tensor) for leaf in leaves)]
        tile, windows, checked = self._tile, self._windows, self._checked
        window = windows.get(axis, slice(0, axis.count))

        def make(start: int, stop: int, given: Sequence[Tensor]) -> Tensor:
            known: dict[Node, Tensor] = dict(zip(shared, given, strict=False))
            own = dict(zip(leaves, given[len(shared) :], strict=True))
            part = slice(window.start + start, window.start + stop)
            return _Evaluator(tile, {**windows, axis: part}, own, known, checked).value(node)

        return tiled(make, self._size(axis), rows, node.axes.index(axis), tensors)

    def _size(self, axis: Stochastic) -> int:
        window = self._windows.get(axis, slice(0, axis.count))
        return int(window.stop - window.start)

    def _total(self, axes: Axes) -> int:
        return math.prod(map(self._size, axes))


def _aligned(tensor: Tensor, axes: Axes, among: Axes, inner: int = 0) -> Tensor:
    """Give a tensor that has `axes` an axis of length 1 for each of the others `among`, and `inner` more at the end."""
    return tensor[(*(slice(None) if axis in axes else None for axis in among), ..., *[None] * inner)]


def _check_closed(node: Deterministic, values: Sequence[Tensor]) -> None:
    """Try a function on one sample: all that its value depends on must be among its arguments."""
    sample = [value[(0,) * len(each.axes)].detach() for value, each in zip(values, node.parents, strict=True)]
    with torch.enable_grad():
        result = node.compute(*sample)
    if not isinstance(result, Tensor):
        raise GraphError(f"node {node.name!r}: expected its function to return a tensor, got {type(result).__name__}")
    if result.requires_grad:
        raise GraphError(
            f"node {node.name!r}: its function uses a tensor that requires a gradient and is not among its arguments; "
            "pass it as one (for a log-density: as an Input in `given`), so that the graph knows of it"
        )
