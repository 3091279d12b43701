"""A weighted sum of objectives on the same rollouts: fitness and evolvability, or novelty and evolvability.

Gajewski et al. 2019, section 6.

    w = share_1 w^(1) + sum_m share_m s_m w^(m)     s_m: scales w^(m) to the standard deviation of w^(1)

If all weights of the first part are equal, the first part whose weights differ sets the scale: novelty has no weights
in the first generation, while its archive is empty.

    [objective]
    name = "blend"
    [[objective.parts]]
    name = "fitness"
    share = 0.5
    [[objective.parts]]
    name = "maxent"
    share = 0.5
"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Floats
from ees_mpi.generation import Outcomes, below
from ees_mpi.ranks import Ranks
from ees_mpi.registry import key
from ees_mpi.strategy.objectives import OBJECTIVES
from ees_mpi.strategy.objectives.base import Memory, Objective


class Blend(Objective, frozen=True):
    """Adds up the weights of its parts."""

    parts: Annotated[
        tuple[dict[str, Any], ...],
        key("Tables [[objective.parts]], each with a name, a share >= 0 and the keys of that objective."),
    ]

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("objective.parts: expected at least one [[objective.parts]], got none")
        for number, section in enumerate(self.parts):
            share = section.get("share")
            if not isinstance(share, (int, float)) or isinstance(share, bool) or not 0 <= share < float("inf"):
                raise ValueError(f"objective.parts[{number}].share: expected a number >= 0, got {share!r}")
        # The file of a run has all keys of the parts, so that a later default does not change its bits.
        parts = tuple({"share": share, **OBJECTIVES.section(part)} for share, part in self.members)
        msgspec.structs.force_setattr(self, "parts", parts)

    @property
    def members(self) -> Sequence[tuple[float, Objective]]:
        """Return the share and the objective of each part."""
        found = []
        for number, part in enumerate(self.parts):
            section = {name: value for name, value in part.items() if name != "share"}
            found.append((part["share"], OBJECTIVES.build(section, f"objective.parts[{number}]")))
        return found

    def weights(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> Floats:
        """Return the weights [N]."""
        total = np.zeros(len(outcomes.valid))
        scale_std = 0.0
        for number, (share, part) in enumerate(self.members):
            weights = part.weights(outcomes, below(f"{number}/", memory), ranks)
            std = float(weights[outcomes.valid].std())
            if scale_std == 0:
                scale_std, scale = std, 1.0
            else:
                scale = scale_std / std if std > 0 else 0.0
            if share > 0:  # a part with share 0 must not change the sum, not even by rounding
                total += share * scale * weights
        return total

    def remember(self, outcomes: Outcomes, memory: Memory) -> Memory:
        """Return the memory of all parts after a generation; names begin with the number of the part."""
        grown: dict[str, NDArray[Any]] = {}
        for number, (_, part) in enumerate(self.members):
            remembered = part.remember(outcomes, below(f"{number}/", memory))
            grown |= {f"{number}/{name}": array for name, array in remembered.items()}
        return grown
