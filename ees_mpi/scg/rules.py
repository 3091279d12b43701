"""The rules of a nested stochastic computation graph (Gajewski et al. 2019, supplement S3).

This module checks that each stochastic node belongs to exactly one expectation. The constructors in `nodes` check that
a stochastic node is a leaf, and that an expectation depends on its stochastic node.
"""

from collections.abc import Callable, Sequence

from ees_mpi.errors import GraphError
from ees_mpi.scg.nodes import Expectation, Node, Stochastic


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
