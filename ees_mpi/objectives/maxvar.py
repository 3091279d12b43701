"""MaxVar: maximise the trace of the covariance of the offspring's behaviour.

Gajewski et al. 2019, equation 1.

    J = sum_j E[(B_j - mu_j)^2]        w_i = sum_j b_ij^2 / N,    b: the behaviours whitened per component
"""

import numpy as np

from ees_mpi.contracts import Memory
from ees_mpi.objectives.base import ObjectivePart
from ees_mpi.outcomes import Floats, Outcomes
from ees_mpi.ranks import Ranks


class MaxVar(ObjectivePart, frozen=True):
    """Weights by the squared distance from the mean behaviour."""

    def weights(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> tuple[Floats, Memory]:
        """Return the weights [N] and the memory, which stays empty."""
        return outcomes.spread(np.square(outcomes.whitened).sum(axis=1) / outcomes.size), memory

    def value(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> float:
        """Return J: in the task's units, since it is the same for all whitened behaviours."""
        return float(outcomes.behavior[outcomes.valid].var(axis=0).sum())
