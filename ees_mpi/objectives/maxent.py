"""MaxEnt: maximise the entropy of the offspring's behaviour, with a kernel estimate of its density.

Gajewski et al. 2019, equations 2 and 3; its gradient is that of a nested expectation (supplement S3).

    J = -E_z[ log E_z'[ K(b(z), b(z')) ] ],    K_ik = exp(-|b_i - b_k|^2 / (2 bandwidth^2))
    p_i = (1/N) sum_k K_ik
    w_i = -( log p_i + (1/N) sum_k K_ki / p_k ) / N,    b: the normalised behaviours

The paper whitens the behaviours per component. `normalization = "ranks"` uses their centred ranks instead,
like the authors' program, whose kernel exp(-d^2 / h^2) is the one above with bandwidth h / sqrt(2) (docs/fidelity.md).
"""

from typing import Annotated

import numpy as np

from ees_mpi.contracts import Memory, Objective
from ees_mpi.density import NARROWEST, WIDEST, density, kernel_sums
from ees_mpi.outcomes import Floats, Normalization, Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.registry import key


class MaxEnt(Objective, frozen=True):
    """Gives rare behaviours large weights; `bandwidth`: the standard deviation of the kernel."""

    bandwidth: Annotated[
        float,
        key(
            "The standard deviation of the kernel, on normalised behaviours.",
            "standard deviations",
            ge=NARROWEST,
            le=WIDEST,
        ),
    ] = 1.0
    normalization: Annotated[Normalization, key("How each behaviour number is normalised.")] = "whiten"

    headline = "entropy"

    def weights(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> tuple[Floats, Memory]:
        """Return the weights [N] and the memory, which is empty."""
        p = density(outcomes, self.bandwidth, ranks, self.normalization)
        inner = (
            kernel_sums(outcomes.normalised(self.normalization), self.bandwidth, ranks, weights=1.0 / p) / outcomes.size
        )
        return outcomes.centred(-(np.log(p) + inner) / outcomes.size), memory
