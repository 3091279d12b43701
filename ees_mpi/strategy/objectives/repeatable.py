"""Repeatable: maximise the part of the behaviour's variance that belongs to the mutation, not to the start.

With mutations z and independent starts s, s':

    J = sum_j Cov[ B_j(z, s), B_j(z, s') ] = sum_j Var_z[ E_s B_j(z, s) ]          the heritable variance
    w_i = sum_j b_ij(s1) b_ij(s2) / N,    b: the behaviours, centred, over one pooled standard deviation per component

The weight is the derivative of J(r) = (1/N) sum_i r_i (b_i(s1) - m(r)) (b_i(s2) - m(r)) at likelihood ratios of r = 1;
for centred b the terms of the mean m(r) vanish. With K > 2 starts, w_i is the mean over all pairs of different starts.
"""

import numpy as np

from ees_mpi.arrays import Floats
from ees_mpi.errors import ConfigError
from ees_mpi.generation import Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.objectives.base import Memory, Objective


class Repeatable(Objective, frozen=True):
    """Weights each individual by the product of its behaviours from two starts."""

    starts = 2

    def weights(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> Floats:
        if outcomes.by_start is None:
            raise ConfigError(
                'objective.name = "repeatable" compares starts; expected outcomes from two or more (task.rollouts = 2)'
            )
        b = standardised(outcomes.by_start[outcomes.valid], outcomes.common_starts)
        pairs = b.shape[1] * (b.shape[1] - 1)
        products = (np.square(b.sum(axis=1)) - np.square(b).sum(axis=1)).sum(axis=1) / pairs
        return outcomes.centred(products / outcomes.size)


def standardised(by_start: Floats, common: bool) -> Floats:
    """Return behaviours [N, K, B] over their pooled standard deviation per component, centred; 0 if constant.

    common: all individuals have the same starts, so each start has its own mean; otherwise one mean serves all
    """
    centred: Floats = by_start - by_start.mean(axis=0 if common else (0, 1))
    std = np.sqrt(np.square(centred).mean(axis=(0, 1)))
    # A constant component differs from its mean by rounding errors only; do not scale those up.
    alive = std > 1e-12 * np.abs(by_start).max(axis=(0, 1), initial=0.0)
    return np.where(alive, centred / np.where(alive, std, 1.0), 0.0)
