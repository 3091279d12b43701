"""Graphs as Graphviz drawings: circles are stochastic nodes, squares deterministic nodes, ellipses expectations."""

import json

from ees_mpi.scg.nodes import Deterministic, Expectation, Input, Node, Stochastic, check

SHAPES: dict[type[Node], str] = {
    Input: "shape=plaintext",
    Stochastic: "shape=circle",
    Deterministic: "shape=square",
    Expectation: "shape=ellipse, peripheries=2",
}


def dot(output: Node) -> str:
    """Return a graph in the DOT language; `dot -Tsvg` draws it."""
    nodes = check(output)
    key = {node: f"n{place}" for place, node in enumerate(nodes)}
    lines = [f"  {key[node]} [label={_label(node)}, {SHAPES[type(node)]}];" for node in nodes]
    lines += [f"  {key[parent]} -> {key[node]};" for node in nodes for parent in dict.fromkeys(node.parents)]
    return "\n".join(["digraph {", *lines, "}", ""])


def _label(node: Node) -> str:
    """Return the name of a node in quotes; DOT escapes as JSON does."""
    name = f"{node.name}[{node.body.name}]" if isinstance(node, Expectation) else node.name
    return json.dumps(name.replace("\n", " "), ensure_ascii=False)
