"""MaxVar: maximise the variance of each component of the offspring's behaviour.

Gajewski et al. 2019, equation 1.

    J = sum_j E[(B_j - mu_j)^2]        w_i = sum_j b_ij^2 / N,    b: the normalised behaviours, whose mean is 0

J is the trace of the covariance. The paper whitens the behaviours per component, which makes this trace a constant;
the weights then climb sum_j log var(B_j). `normalization = "ranks"` uses their centred ranks instead, like the authors'
program (docs/fidelity.md): it knows the marginal of each component only, and in it only the order.
"""

from typing import Annotated

import numpy as np

from ees_mpi.arrays import Floats, Normalization
from ees_mpi.generation import Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.registry import key
from ees_mpi.strategy.objectives.base import Memory, Objective


class MaxVar(Objective, frozen=True):
    """Weights each individual by the squared distance of its behaviour from the mean behaviour."""

    normalization: Annotated[Normalization, key("How each behaviour number is normalised.")] = "whiten"

    def weights(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> Floats:
        b = outcomes.normalised(self.normalization)
        return outcomes.centred(np.square(b).sum(axis=1) / outcomes.size)
