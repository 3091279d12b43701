"""Several objectives at once, on the same rollouts: evolvability beside fitness, or beside novelty.

Gajewski et al. 2019, section 5.

    w = share_1 w^(1) + sum_m share_m s_m w^(m)     s_m: brings part m to the sd of the first part's weights

    [objective]
    name = "blend"
    [[objective.parts]]
    name = "fitness"
    share = 0.5
    [[objective.parts]]
    name = "maxent"
    share = 0.5
    bandwidth = 1.0
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.errors import ConfigError
from ees_mpi.objectives import OBJECTIVES, Memory
from ees_mpi.outcomes import Floats, Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.registry import Part


class Blend(Part, frozen=True):
    """A weighted sum of objectives; each part has a name, a share and its own settings."""

    parts: tuple[dict[str, Any], ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("objective.parts: expected at least one [[objective.parts]], got none")
        for number, section in enumerate(self.parts):
            share = section.get("share")
            if not isinstance(share, (int, float)) or isinstance(share, bool) or not 0 <= share < float("inf"):
                raise ValueError(f"objective.parts[{number}].share: expected a number >= 0, got {share!r}")
        try:
            list(self.built())
        except ConfigError as error:
            raise ValueError(str(error)) from None

    def built(self) -> Iterator[tuple[float, Any]]:
        """Yield each part's share and objective."""
        for section in self.parts:
            yield section["share"], OBJECTIVES.build({k: v for k, v in section.items() if k != "share"})

    @property
    def headline(self) -> str:
        """The metric that matters: the first part's."""
        headline: str = next(self.built())[1].headline
        return headline

    @property
    def bandwidth(self) -> float:
        """The bandwidth of the first part that has one."""
        return next((part.bandwidth for _, part in self.built() if hasattr(part, "bandwidth")), 1.0)

    def check(self) -> None:
        """Let every part check itself."""
        for _, part in self.built():
            part.check()

    def rehearse(self, size: int, behavior_dim: int) -> None:
        """Let every part that can try itself do so."""
        for _, part in self.built():
            if hasattr(part, "rehearse"):
                part.rehearse(size, behavior_dim)

    def weights(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> tuple[Floats, Memory]:
        """Return the weights [N] and the memory of all parts, each under its number."""
        total = np.zeros(len(outcomes.valid))
        grown: dict[str, NDArray[Any]] = {}
        spread = 0.0
        for number, (share, part) in enumerate(self.built()):
            prefix = f"{number}/"
            own = {name.removeprefix(prefix): memory[name] for name in memory if name.startswith(prefix)}
            weights, own = part.weights(outcomes, own, ranks)
            grown |= {prefix + name: array for name, array in own.items()}
            std = float(weights[outcomes.valid].std())
            if number == 0:
                spread, scale = std, 1.0
            else:
                scale = spread / std if std > 0 else 0.0
            if share > 0:  # a share of nothing leaves no trace, not even a rounding
                total += share * scale * weights
        return total, grown
