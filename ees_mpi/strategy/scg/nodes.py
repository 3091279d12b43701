"""The nodes of a nested stochastic computation graph, and the expressions that make them.

Nodes are lazy: `estimate` computes their values. Every function is written for one sample. The value of a node has one
leading axis for each random variable that it varies with (`axes`), in order of creation.
"""

import functools
import itertools
import json
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ees_mpi.errors import GraphError

INFIX = ("+", "-", "*", "/", "**")

Method = Callable[["Node", Any], "Node"]

_creation = itertools.count()


def _operator(name: str, function: Callable[..., Any]) -> tuple[Method, Method]:
    """Return two methods of Node: for `node + other` and for `other + node`, or with another operator."""

    def forward(self: "Node", other: Any) -> "Node":
        return apply(function, self, other, name=name)

    def reflected(self: "Node", other: Any) -> "Node":
        return apply(function, other, self, name=name)

    return forward, reflected


class Node:
    """A value in a graph; `parents`: the nodes it depends on; `axes`: the random variables that it varies with."""

    def __init__(self, name: str, parents: Sequence["Node"], axes: Iterable["Stochastic"]):
        self.name = name
        self.parents = tuple(parents)
        self.axes = tuple(sorted(set(axes), key=lambda axis: axis.created))

    @property
    def needs(self) -> tuple["Node", ...]:
        """Return the nodes from which the value is computed."""
        return self.parents

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def __str__(self) -> str:
        return self.name

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> "Node":
        """Return a node for a torch function of nodes: torch.exp(node) is a node."""
        name = getattr(function, "__name__", "function")
        if not any(isinstance(arg, Node) for arg in args):
            raise GraphError(f"torch.{name}: expected nodes as plain arguments; use apply(function, node, ...)")
        return apply(functools.partial(function, **kwargs or {}), *args, name=name)

    __add__, __radd__ = _operator("+", operator.add)
    __sub__, __rsub__ = _operator("-", operator.sub)
    __mul__, __rmul__ = _operator("*", operator.mul)
    __truediv__, __rtruediv__ = _operator("/", operator.truediv)
    __pow__, __rpow__ = _operator("**", operator.pow)

    __array_ufunc__ = None  # so that `array * node` calls `__rmul__`, and np.exp(node) raises

    def __neg__(self) -> "Node":
        return apply(operator.neg, self, name="-")

    def __abs__(self) -> "Node":
        return apply(torch.abs, self, name="abs")

    def sum(self, *dims: int) -> "Node":
        """Return the sum over the components of one sample, or over some of its dimensions."""
        return apply(functools.partial(torch.sum, dim=dims or None), self, name="sum")

    def __getitem__(self, index: Any) -> "Node":
        return apply(operator.getitem, self, index, name="item")

    __iter__ = None  # the length is not known here, so that Python would call `__getitem__` for ever


class Leaf(Node):
    """A node with a tensor: one axis for each random variable that it varies with, then the shape of one sample."""

    def __init__(self, name: str, tensor: Tensor, axes: Iterable["Stochastic"] = ()):
        super().__init__(name, (), axes)
        self.tensor = tensor


class Input(Leaf):
    """An input that is the same for every sample, for example parameters."""


class Stochastic(Leaf):
    """Samples of a random variable with their log-densities.

    samples: [..., N, ...]: one axis for each random variable that it is conditional on, in order of creation, then the
        N samples, then the shape of one sample.
    log_density: [..., N], differentiable; or a function of one sample and the values of `given`.
    given: the nodes that its distribution is conditional on.
    reference: the log-densities [..., N] with which the samples were drawn; None: the present ones.
    """

    def __init__(
        self,
        name: str,
        samples: Tensor,
        log_density: Tensor | Callable[..., Tensor],
        given: Sequence[Node] = (),
        reference: Tensor | None = None,
    ):
        self.created = next(_creation)
        self.given = tuple(given)
        outer = {axis for node in given for axis in node.axes}
        super().__init__(name, samples, [*outer, self])
        self._check_samples()
        self.count = samples.shape[len(outer)]
        self._log_density, self._reference = log_density, reference
        self.log_density = self._densities("log_density", log_density)
        self.reference = None if reference is None else self._densities("reference", reference.detach())

    def _check_samples(self) -> None:
        if self.tensor.requires_grad:
            raise GraphError(
                f"stochastic node {self.name!r} must be a leaf, but its samples require a gradient; pass "
                "samples.detach(), and write the dependence on parameters into log_density"
            )
        shape = tuple(self.tensor.shape)
        outer = tuple(axis.count for axis in self.axes[:-1])
        if len(shape) <= len(outer) or shape[: len(outer)] != outer or shape[len(outer)] == 0:
            before = "".join(f"{count} of {axis.name!r}, " for axis, count in zip(self.axes, outer, strict=False))
            expected = f"[{before}one or more of {self.name!r}, ...]"
            raise GraphError(f"stochastic node {self.name!r}: expected samples of shape {expected}, got {list(shape)}")
        if wrong := int((~torch.isfinite(self.tensor)).sum()):
            raise GraphError(
                f"stochastic node {self.name!r}: expected finite samples, got nan or inf in {wrong} of "
                f"{self.tensor.numel()} numbers; leave out the samples that have no value, such as invalid rollouts"
            )

    def _densities(self, kind: str, densities: Tensor | Callable[..., Tensor]) -> Node:
        """Return a node of log-densities: a leaf, or a function of the sample and of `given`."""
        name = f"{kind} of {self.name}"
        if not isinstance(densities, Tensor):
            return Deterministic(name, densities, (self, *self.given))
        self.check_densities(kind, densities, tuple(self.tensor.shape[: len(self.axes)]))
        return Leaf(name, densities, self.axes)

    def check_densities(self, kind: str, densities: Tensor, shape: tuple[int, ...]) -> None:
        """Raise a GraphError unless there is one finite log-density for each sample."""
        if tuple(densities.shape) != shape:
            raise GraphError(
                f"stochastic node {self.name!r}: expected {kind} of shape {list(shape)}, one number for each sample, "
                f"got {list(densities.shape)}"
            )
        if not bool(torch.isfinite(densities.detach()).all()):
            raise GraphError(
                f"stochastic node {self.name!r}: expected finite {kind}, got nan or inf; every sample must be possible "
                "under its distribution"
            )

    def twin(self, name: str) -> "Stochastic":
        """Return an independent copy of the random variable with the same samples: the z' for a z."""
        return Stochastic(name, self.tensor, self._log_density, self.given, self._reference)


class Deterministic(Node):
    """A function of nodes and constants, written for one sample of each node."""

    def __init__(self, name: str, function: Callable[..., Tensor], args: Sequence[Any]):
        parents = [arg for arg in args if isinstance(arg, Node)]
        super().__init__(name, parents, (axis for node in parents for axis in node.axes))
        self._function, self._args = function, tuple(args)

    def compute(self, *values: Tensor) -> Tensor:
        """Return the value of the function for one sample of each parent."""
        given = iter(values)
        return self._function(*(next(given) if isinstance(arg, Node) else arg for arg in self._args))

    def __str__(self) -> str:
        words = list(map(str, self._args))
        if self.name in INFIX and len(words) == 2:
            return f"({words[0]} {self.name} {words[1]})"
        return f"{self.name}({', '.join(words)})"


class Expectation(Node):
    """The expectation of a node, the body, over one random variable; it also depends on the variable's `given`."""

    def __init__(self, body: Node, over: Stochastic):
        if not isinstance(over, Stochastic):
            raise GraphError(f"expectation of {body}: expected a stochastic node to average over, got {over!r}")
        if over not in body.axes:
            raise GraphError(f"the body {body} of the expectation over {over.name!r} does not depend on {over.name!r}")
        for axis in body.axes:
            if axis is not over and over in axis.axes:
                raise GraphError(
                    f"the distribution of {axis.name!r} is conditional on {over.name!r}: take the expectation over "
                    f"{axis.name!r} inside of the expectation over {over.name!r}"
                )
        axes = {*body.axes, *over.axes} - {over}
        super().__init__(f"E_{over.name}", tuple(dict.fromkeys([body, *over.given])), axes)
        self.body, self.over = body, over

    @property
    def needs(self) -> tuple[Node, ...]:
        """Return the nodes from which the value is computed: the body, and the log-densities of the samples."""
        references = () if self.over.reference is None else (self.over.reference,)
        return self.body, self.over.log_density, *references

    def __str__(self) -> str:
        return f"{self.name}[{self.body}]"


def apply(function: Callable[..., Tensor], *args: Any, name: str | None = None) -> Node:
    """Return a node for a function of nodes, tensors, arrays and constants; it gets one sample of each node."""
    if not any(isinstance(arg, Node) for arg in args):
        raise GraphError(f"apply({function!r}, ...): expected at least one node among its arguments, got {args!r}")
    args = tuple(torch.tensor(arg) if isinstance(arg, (np.ndarray, np.generic)) else arg for arg in args)
    inputs = [Input(f"tensor{list(arg.shape)}", arg) if isinstance(arg, Tensor) else arg for arg in args]
    return Deterministic(name or str(getattr(function, "__name__", "function")), function, inputs)


def expect(body: Node, over: Stochastic) -> Expectation:
    """Return the expectation of a node over a random variable."""
    return Expectation(body, over)


def walk(output: Node, edges: Callable[[Node], Sequence[Node]] = lambda node: node.parents) -> list[Node]:
    """Return all nodes of a graph, each once, parents before children."""
    order: dict[Node, None] = {}
    stack = [(output, False)]
    while stack:
        node, ready = stack.pop()
        if node in order:
            continue
        if ready:
            order[node] = None
            continue
        stack.append((node, True))
        stack += [(parent, False) for parent in reversed(edges(node))]
    return list(order)


def check(output: Node) -> list[Node]:
    """Raise a GraphError that names the wrong node if the graph breaks a rule; return its nodes in order."""
    nodes = walk(output)
    over: dict[Stochastic, Expectation] = {}
    for node in nodes:
        if isinstance(node, Expectation) and over.setdefault(node.over, node) is not node:
            raise GraphError(
                f"stochastic node {node.over.name!r} must belong to exactly one expectation, but is averaged by "
                f"{over[node.over]} and by {node}; use {node.over.name}.twin(...) in one of them"
            )
    if output.axes:
        axis = output.axes[0]
        place = "outside of the expectation over it" if axis in over else "under no expectation"
        raise GraphError(f"stochastic node {axis.name!r} is used {place}, in {output}; use expect(..., over=it)")
    names = [node.name for node in nodes if isinstance(node, Stochastic)]
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise GraphError(f"two stochastic nodes are named {double!r}; give them different names")
    return nodes


SHAPES: dict[type[Node], str] = {
    Input: "shape=plaintext",
    Stochastic: "shape=circle",
    Deterministic: "shape=square",
    Expectation: "shape=ellipse, peripheries=2",
}


def dot(output: Node) -> str:
    """Return a graph in the DOT language of Graphviz; `dot -Tsvg` draws it."""
    nodes = check(output)
    key = {node: f"n{place}" for place, node in enumerate(nodes)}
    lines = [f"  {key[node]} [label={_label(node)}, {SHAPES[type(node)]}];" for node in nodes]
    lines += [f"  {key[parent]} -> {key[node]};" for node in nodes for parent in dict.fromkeys(node.parents)]
    return "\n".join(["digraph {", *lines, "}", ""])


def _label(node: Node) -> str:
    """Return the name of a node in quotes; DOT escapes as JSON does."""
    name = f"{node.name}[{node.body.name}]" if isinstance(node, Expectation) else node.name
    return json.dumps(name.replace("\n", " "), ensure_ascii=False)
