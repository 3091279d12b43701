"""The paper's objectives as torch functions of behaviours, fitness and likelihood ratios.

Gajewski et al. 2019, supplement S4. The derivative with respect to ratio i, at ratios of 1, is the weight of individual
i. `ees_mpi.strategy.objectives` has the same weights in closed form. `objective.function` accepts functions like these.

behaviors: [N, B], normalised per component; fitness: [N]; ratios: [N]. All return a scalar.
"""

import functools

import torch
from torch import Tensor

from ees_mpi.arrays import Bandwidth
from ees_mpi.generation import centred_ranks
from ees_mpi.strategy.density import scott
from ees_mpi.strategy.scg.evaluation import estimate
from ees_mpi.strategy.scg.nodes import Stochastic, apply, expect


def standard_es(behaviors: Tensor, fitness: Tensor, ratios: Tensor) -> Tensor:
    """Return E[rank of the fitness], with ranks symmetric in [-0.5, 0.5]."""
    z = individuals(torch.from_numpy(centred_ranks(fitness.detach().cpu().numpy())).to(ratios), ratios)
    return estimate(expect(z, over=z))


def maxvar(behaviors: Tensor, fitness: Tensor, ratios: Tensor) -> Tensor:
    """Return sum_j E_z[(B_j(z) - E_z'[B_j(z')])^2]."""
    z = individuals(behaviors, ratios)
    other = z.twin("z'")
    mean = expect(other, over=other)
    return estimate(expect(((z - mean) ** 2).sum(), over=z))


def maxent(behaviors: Tensor, fitness: Tensor, ratios: Tensor, bandwidth: Bandwidth = "scott") -> Tensor:
    """Return -E_z[log E_z'[K(B(z), B(z'))]], with a Gaussian kernel K of standard deviation `bandwidth`."""
    z = individuals(behaviors, ratios)
    if isinstance(bandwidth, str):
        b = behaviors.detach().numpy()
        bandwidth = scott(b, b.std(axis=0))
    other = z.twin("z'")
    density = expect(apply(gaussian_kernel, z, other, bandwidth), over=other)
    return estimate(expect(-apply(torch.log, density), over=z))


def individuals(values: Tensor, ratios: Tensor) -> Stochastic:
    """Return the population as a stochastic node: values [N, ...] of the individuals, and their likelihood ratios."""
    return Stochastic("z", values, ratios.log(), reference=torch.zeros_like(ratios))


def gaussian_kernel(one: Tensor, other: Tensor, bandwidth: float) -> Tensor:
    """Return exp(-|one - other|^2 / (2 bandwidth^2)) for two vectors [B]."""
    # Component by component: for N x N pairs, a sum along a short last axis takes three times as long.
    squares = ((a - b) ** 2 for a, b in zip(one, other, strict=True))
    return torch.exp(functools.reduce(torch.add, squares) * (-0.5 / bandwidth**2))
