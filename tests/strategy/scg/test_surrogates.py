"""The surrogates' gradients with respect to the ratios are the weights of the closed forms."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.outcomes import outcomes
from torch import Tensor

from ees_mpi.arrays import Floats, Normalization
from ees_mpi.generation import Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.density import width
from ees_mpi.strategy.objectives.fitness import Fitness
from ees_mpi.strategy.objectives.maxent import MaxEnt
from ees_mpi.strategy.objectives.maxvar import MaxVar
from ees_mpi.strategy.scg import surrogates

torch.set_num_threads(1)


def made(count: int, dim: int) -> Outcomes:
    found = outcomes(count, dim, invalid=tuple(range(0, count, 10)))
    return replace(found, fitness=np.round(found.fitness, 1))  # some of them equal


def weights(
    surrogate: Callable[..., Tensor], given: Outcomes, normalization: Normalization = "whiten", **settings: float
) -> Floats:
    ratios = torch.ones(given.size, dtype=torch.float64, requires_grad=True)
    behaviors, fitness = torch.tensor(given.normalised(normalization)), torch.tensor(given.fitness[given.valid])
    (gradient,) = torch.autograd.grad(surrogate(behaviors, fitness, ratios, **settings), ratios)
    return given.centred(gradient.numpy())


def maxent_in_double(given: Outcomes, bandwidth: float, normalization: Normalization = "whiten") -> Floats:
    """The closed form, with the kernel in double precision; density.py has it in single."""
    b = given.normalised(normalization)
    kernel = np.exp(-np.square(b[:, None] - b).sum(axis=2) / (2 * bandwidth**2))
    p = kernel.mean(axis=1)
    return given.centred(-(np.log(p) + (kernel / p[:, None]).mean(axis=0)) / given.size)


@pytest.mark.parametrize("normalization", ["whiten", "ranks"])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_standard_es_and_maxvar_equal_the_closed_forms(dim: int, normalization: Normalization) -> None:
    given = made(200, dim)
    closed = Fitness().weights(given, {}, Ranks())
    np.testing.assert_allclose(weights(surrogates.standard_es, given), closed, rtol=1e-10, atol=1e-10 / 200)
    closed = MaxVar(normalization=normalization).weights(given, {}, Ranks())
    np.testing.assert_allclose(weights(surrogates.maxvar, given, normalization), closed, rtol=1e-10, atol=1e-10 / 200)


@pytest.mark.parametrize("normalization", ["whiten", "ranks"])
@pytest.mark.parametrize(("dim", "bandwidth"), [(1, 1.0), (2, 1.0), (3, 0.4)])
def test_maxent_equals_the_closed_form(dim: int, bandwidth: float, normalization: Normalization) -> None:
    given = made(200, dim)
    by_graph = weights(surrogates.maxent, given, normalization, bandwidth=bandwidth)
    closed = maxent_in_double(given, bandwidth, normalization)
    np.testing.assert_allclose(by_graph, closed, rtol=1e-10, atol=1e-10 / 200)
    single = MaxEnt(bandwidth=bandwidth, normalization=normalization).weights(given, {}, Ranks())
    # The kernel of ranks is nearly flat: its weights are small differences of terms of about 1/N.
    scale = np.abs(closed).max() if normalization == "whiten" else 2 / given.size
    np.testing.assert_allclose(by_graph, single, rtol=0, atol=1e-6 * scale)


def test_maxent_of_two_thousand_individuals_in_several_tiles() -> None:
    given = made(2000, 2)
    by_graph, closed = weights(surrogates.maxent, given), maxent_in_double(given, width(given, "scott"))
    np.testing.assert_allclose(by_graph, closed, rtol=1e-10, atol=1e-10 / 2000)
