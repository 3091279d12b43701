"""MaxEnt: maximise the entropy of the offspring's behaviour, with a kernel estimate of its density.

Gajewski et al. 2019, equations 2 and 3; its gradient is that of a nested expectation (supplement S3).

    J = -E_z[ log E_z'[ K(b(z), b(z')) ] ],    K_ik = exp(-|b_i - b_k|^2 / (2 bandwidth^2))
    p_i = (1/N) sum_k K_ik
    w_i = -( log p_i + (1/N) sum_k K_ki / p_k ) / N,    b: the normalised behaviours

The paper's kernel has a bandwidth of 1. In a space with borders that is too wide: a cloud that parts into its corners
counts as spread out, and the middle empties. Scott's rule is narrower, the more individuals there are; see `density`.

The paper whitens the behaviours per component. `normalization = "ranks"` uses their centred ranks instead,
like the authors' program, whose kernel exp(-d^2 / h^2) is the one above with bandwidth h / sqrt(2) (docs/fidelity.md).
"""

from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from ees_mpi.arrays import Floats, Normalization
from ees_mpi.generation import Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.registry import key
from ees_mpi.strategy.density import NARROWEST, WIDEST, density, kernel_sums, width
from ees_mpi.strategy.objectives.base import Memory, Objective


class MaxEnt(Objective, frozen=True):
    """Gives rare behaviours large weights; `bandwidth`: the standard deviation of the kernel."""

    bandwidth: Annotated[
        Annotated[float, Meta(ge=NARROWEST, le=WIDEST)] | Literal["scott"],
        key("The standard deviation of the kernel, on normalised behaviours; or Scott's rule.", "standard deviations"),
    ] = "scott"
    normalization: Annotated[Normalization, key("How each behaviour number is normalised.")] = "whiten"

    climbs = "entropy"

    def weights(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> Floats:
        b, h = outcomes.normalised(self.normalization), width(outcomes, self.bandwidth, self.normalization)
        p = density(outcomes, h, ranks, self.normalization)
        inner = kernel_sums(b, h, ranks, weights=1.0 / p) / outcomes.size
        return outcomes.centred(-(np.log(p) + inner) / outcomes.size)
