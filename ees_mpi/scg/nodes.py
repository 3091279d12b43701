"""The nodes of a nested stochastic computation graph, and how expressions make them.

Nodes are lazy: they hold what to compute, and `estimate` computes it. Every function is written for one sample; a
node's value has one leading axis for each random variable that it varies with (`axes`), in order of creation.
"""

import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ees_mpi.errors import GraphError

INFIX = ("+", "-", "*", "/", "**")

_creation = itertools.count()


class Node:
    """A value in a graph; `parents`: what it is computed from, `axes`: the random variables that it varies with."""

    def __init__(self, name: str, parents: Sequence["Node"], axes: Iterable["Stochastic"]):
        self.name = name
        self.parents = tuple(parents)
        self.axes = tuple(sorted(set(axes), key=lambda axis: axis.created))

    @property
    def needs(self) -> tuple["Node", ...]:
        """What its value is computed from."""
        return self.parents

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def __str__(self) -> str:
        return self.name

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> "Node":
        """Let torch functions take nodes: torch.exp(node) is a node."""
        named = getattr(function, "__name__", "function")
        if not any(isinstance(arg, Node) for arg in args):
            raise GraphError(f"torch.{named}: expected nodes as plain arguments; use apply(function, node, ...)")
        if not kwargs:
            return apply(function, *args, name=named)
        options = kwargs
        return apply(lambda *values: function(*values, **options), *args, name=named)

    def __add__(self, other: Any) -> "Node":
        return apply(operator.add, self, other, name="+")

    def __radd__(self, other: Any) -> "Node":
        return apply(operator.add, other, self, name="+")

    def __sub__(self, other: Any) -> "Node":
        return apply(operator.sub, self, other, name="-")

    def __rsub__(self, other: Any) -> "Node":
        return apply(operator.sub, other, self, name="-")

    def __mul__(self, other: Any) -> "Node":
        return apply(operator.mul, self, other, name="*")

    def __rmul__(self, other: Any) -> "Node":
        return apply(operator.mul, other, self, name="*")

    def __truediv__(self, other: Any) -> "Node":
        return apply(operator.truediv, self, other, name="/")

    def __rtruediv__(self, other: Any) -> "Node":
        return apply(operator.truediv, other, self, name="/")

    def __pow__(self, other: Any) -> "Node":
        return apply(operator.pow, self, other, name="**")

    def __neg__(self) -> "Node":
        return apply(operator.neg, self, name="-")

    def __getitem__(self, index: Any) -> "Node":
        return apply(operator.getitem, self, index, name="item")


class Leaf(Node):
    """A tensor: an axis for each random variable that it varies with, then the shape of one sample."""

    def __init__(self, name: str, tensor: Tensor, axes: Iterable["Stochastic"] = ()):
        super().__init__(name, (), axes)
        self.tensor = tensor


class Input(Leaf):
    """A fixed input, the same for every sample: parameters, say."""

    def __init__(self, name: str, tensor: Tensor):
        super().__init__(name, tensor)


class Stochastic(Leaf):
    """Samples of a random variable with their log-density: a leaf.

    samples: [..., N, ...]: an axis for each random variable that it is conditional on, in order of creation, then
        its own, then the shape of one sample.
    log_density: [..., N], differentiable; or a function of one sample and the values of `given`.
    given: the nodes that its distribution is conditional on.
    reference: the log-densities [..., N] with which the samples were drawn; the present ones where None.
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
                f"stochastic node {self.name!r} must be a leaf, but its samples carry a gradient; pass "
                "samples.detach(), and let log_density say how their distribution depends on parameters"
            )
        shape = tuple(self.tensor.shape)
        outer = tuple(axis.count for axis in self.axes[:-1])
        if len(shape) <= len(outer) or shape[: len(outer)] != outer or shape[len(outer)] == 0:
            before = "".join(f"{count} of {axis.name!r}, " for axis, count in zip(self.axes, outer, strict=False))
            raise GraphError(
                f"stochastic node {self.name!r}: expected samples of shape [{before}one or more of its own, ...], "
                f"got {list(shape)}"
            )

    def _densities(self, what: str, densities: Tensor | Callable[..., Tensor]) -> Node:
        """Make a node of log-densities: a leaf, or a function of the sample and of what it is conditional on."""
        name = f"{what} of {self.name}"
        if not isinstance(densities, Tensor):
            return Deterministic(name, densities, (self, *self.given))
        self.check_densities(what, densities, tuple(self.tensor.shape[: len(self.axes)]))
        return Leaf(name, densities, self.axes)

    def check_densities(self, what: str, densities: Tensor, shape: tuple[int, ...]) -> None:
        """Raise unless there is one finite log-density for each sample."""
        if tuple(densities.shape) != shape:
            raise GraphError(
                f"stochastic node {self.name!r}: expected {what} of shape {list(shape)}, one number for each sample, "
                f"got {list(densities.shape)}"
            )
        if not bool(torch.isfinite(densities.detach()).all()):
            raise GraphError(
                f"stochastic node {self.name!r}: expected finite {what}, got nan or inf; a sample must be possible "
                "under its own distribution"
            )

    def twin(self, name: str) -> "Stochastic":
        """Return an independent copy of the random variable that shares the samples: the z' to a z."""
        return Stochastic(name, self.tensor, self._log_density, self.given, self._reference)


class Deterministic(Node):
    """A function of nodes and constants, written for one sample of each node."""

    def __init__(self, name: str, function: Callable[..., Tensor], args: Sequence[Any]):
        parents = [arg for arg in args if isinstance(arg, Node)]
        super().__init__(name, parents, (axis for node in parents for axis in node.axes))
        self._function, self._args = function, tuple(args)

    def compute(self, *values: Tensor) -> Tensor:
        """Return the function's value for one sample of each parent."""
        given = iter(values)
        return self._function(*(next(given) if isinstance(arg, Node) else arg for arg in self._args))

    def __str__(self) -> str:
        words = list(map(str, self._args))
        if self.name in INFIX and len(words) == 2:
            return f"({words[0]} {self.name} {words[1]})"
        return f"{self.name}({', '.join(words)})"


class Expectation(Node):
    """The expectation of a body over one random variable; it also depends on what that one is conditional on."""

    def __init__(self, body: Node, over: Stochastic):
        if not isinstance(over, Stochastic):
            raise GraphError(f"expectation of {body}: expected a stochastic node to average over, got {over!r}")
        if over not in body.axes:
            raise GraphError(f"the expectation over {over.name!r} does not depend on it: its body is {body}")
        for axis in body.axes:
            if axis is not over and over in axis.axes:
                raise GraphError(
                    f"the expectation over {over.name!r} leaves {axis.name!r} open, whose distribution is conditional "
                    f"on {over.name!r}: take the expectation over {axis.name!r} first, inside"
                )
        axes = {*body.axes, *over.axes} - {over}
        super().__init__(f"E_{over.name}", tuple(dict.fromkeys([body, *over.given])), axes)
        self.body, self.over = body, over

    @property
    def needs(self) -> tuple[Node, ...]:
        """What its value is computed from: the body, and the likelihood of each sample."""
        references = () if self.over.reference is None else (self.over.reference,)
        return self.body, self.over.log_density, *references

    def __str__(self) -> str:
        return f"{self.name}[{self.body}]"


def apply(function: Callable[..., Tensor], *args: Any, name: str | None = None) -> Node:
    """Make a node of a function of nodes, tensors and constants; the function sees one sample of each node."""
    if not any(isinstance(arg, Node) for arg in args):
        raise GraphError(f"apply({function!r}, ...): expected at least one node among its arguments, got {args!r}")
    inputs = [Input(f"tensor{list(arg.shape)}", arg) if isinstance(arg, Tensor) else arg for arg in args]
    return Deterministic(name or str(getattr(function, "__name__", "function")), function, inputs)


def expect(body: Node, over: Stochastic) -> Expectation:
    """Make the expectation of a node over a random variable."""
    return Expectation(body, over)
