"""The rules of a graph, each broken once, and how a graph prints and draws."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ees_mpi.strategy import scg

torch.set_num_threads(1)


def variable(name: str = "z", count: int = 4) -> scg.Stochastic:
    return scg.Stochastic(name, torch.arange(float(count)), torch.zeros(count, requires_grad=True))


def given_in_the_wrong_order(x1: scg.Stochastic, _: scg.Stochastic) -> scg.Node:
    x2 = scg.Stochastic("x2", torch.zeros(4, 2), torch.zeros(4, 2), given=(x1,))
    return scg.expect(scg.expect(x1 * x2, over=x1), over=x2)


TWICE = r"'z' must belong to exactly one expectation, but is averaged by E_z\[z\] and by E_z\[\(z \*\* 2"
LEAF = r"'z' must be a leaf, but its samples require a gradient; pass samples.detach\(\)"
BROKEN = [
    (lambda z, y: scg.expect(z, over=z) * scg.expect(z**2, over=z), TWICE),
    (lambda z, y: scg.expect(z * y, over=z), r"'y' is used under no expectation, in E_z\[\(z \* y\)\]"),
    (lambda z, y: scg.expect(z, over=z) + z, r"'z' is used outside of the expectation over it"),
    (lambda z, y: scg.expect(y, over=z), r"the body y of the expectation over 'z' does not depend on 'z'"),
    (lambda z, y: scg.Stochastic("z", torch.ones(4, requires_grad=True) * 2, torch.zeros(4)), LEAF),
    (given_in_the_wrong_order, r"'x2' is conditional on 'z': take the expectation over 'x2' inside"),
    (lambda z, y: scg.expect(z, over=z) + scg.expect(w := variable(), over=w), r"two stochastic nodes are named 'z'"),
]


@pytest.mark.parametrize(("graph", "message"), BROKEN)
def test_a_broken_rule_names_the_node(graph: Callable[..., scg.Node], message: str) -> None:
    with pytest.raises(scg.GraphError, match=message):
        scg.estimate(graph(variable(), variable("y")))


@pytest.mark.parametrize(
    ("samples", "densities", "message"),
    [
        ((4,), (5,), r"'z': expected log_density of shape \[4\], one number for each sample, got \[5\]"),
        ((4, 2), (4, 2), r"'z': expected log_density of shape \[4\].*got \[4, 2\]"),
        ((0, 2), (0,), r"'z': expected samples of shape \[one or more of 'z', ...\], got \[0, 2\]"),
        ((), (), r"'z': expected samples of shape .* got \[\]"),
    ],
)
def test_shapes_that_do_not_fit_name_a_node(samples: tuple[int, ...], densities: tuple[int, ...], message: str) -> None:
    with pytest.raises(scg.GraphError, match=message):
        scg.Stochastic("z", torch.zeros(samples), torch.zeros(densities))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_samples_without_a_value_are_refused(value: float) -> None:
    behaviors = torch.tensor([[1.0, 2.0], [value, 3.0]])
    with pytest.raises(scg.GraphError, match=r"'z': expected finite samples, got nan or inf in 1 of 4 numbers; leave"):
        scg.Stochastic("z", behaviors, torch.zeros(2))


def test_a_gradient_that_the_graph_does_not_know_of_is_refused() -> None:
    theta = torch.ones((), requires_grad=True)
    z = variable()
    hidden = scg.apply(lambda value: value * theta, z, name="f")
    with pytest.raises(
        scg.GraphError, match=r"node 'f': its function uses a tensor that requires a gradient and is not"
    ):
        scg.estimate(scg.expect(hidden, over=z))
    y = scg.Stochastic("y", torch.zeros(3), lambda value: value * theta)
    with pytest.raises(scg.GraphError, match=r"node 'log_density of y': .*as an Input in `given`"):
        scg.estimate(scg.expect(y, over=y))
    number = scg.apply(lambda value: 1.0, z, name="g")
    with pytest.raises(scg.GraphError, match=r"node 'g': expected its function to return a tensor, got float"):
        scg.estimate(scg.expect(number, over=z))


def reward_process() -> scg.Node:
    """The paper's figure: E_x1[f1(x1) + E_x2[f2(x2)]], x1 given x0 and theta, x2 given x1 and theta."""
    theta, x0 = scg.Input("theta", torch.zeros(())), scg.Input("x0", torch.zeros(()))

    def density(x: Tensor, before: Tensor, theta: Tensor) -> Tensor:
        return -((x - theta * before) ** 2)

    x1 = scg.Stochastic("x1", torch.zeros(3), density, given=(x0, theta))
    x2 = scg.Stochastic("x2", torch.zeros(3, 1), density, given=(x1, theta))
    f1, f2 = scg.apply(torch.square, x1, name="f1"), scg.apply(torch.square, x2, name="f2")
    return scg.expect(f1 + scg.expect(f2, over=x2), over=x1)


def test_the_papers_figure_prints_as_its_formula_and_is_drawn_with_its_arrows() -> None:
    assert str(reward_process()) == "E_x1[(f1(x1) + E_x2[f2(x2)])]"
    text = scg.dot(reward_process())
    nodes = dict(line.strip().split(" ", 1) for line in text.splitlines() if "[" in line)
    label = {key: rest.split('"')[1] for key, rest in nodes.items()}
    arrows = {tuple(label[end] for end in line.strip(" ;").split(" -> ")) for line in text.splitlines() if "->" in line}
    into = {"E_x1[+]": "x0 theta +", "E_x2[f2]": "theta x1 f2", "f1": "x1", "f2": "x2", "+": "f1 E_x2[f2]"}
    assert arrows == {(begin, end) for end, begins in into.items() for begin in begins.split()}
