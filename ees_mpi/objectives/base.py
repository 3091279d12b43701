"""The base class of objectives: the defaults of everything in `contracts.Objective` that most objectives share."""

from collections.abc import Sequence

import msgspec

from ees_mpi.contracts import Memory, Objective
from ees_mpi.outcomes import Floats, Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.registry import Part


class ObjectivePart(Part, frozen=True):
    """An objective without a kernel and without a memory. `contracts.Objective` explains all members.

    A subclass defines `weights` and `value`.
    """

    @property
    def headline(self) -> str:
        return "behavior_variance"

    @property
    def label(self) -> str:
        return ""

    @property
    def uses_torch(self) -> bool:
        return False

    @property
    def bandwidth(self) -> float | None:
        return None

    @property
    def members(self) -> Sequence[tuple[float, Objective]]:
        return ((1.0, self),)

    @property
    def remembers(self) -> bool:
        return False

    def with_bandwidth(self, bandwidth: float) -> Objective:
        """Return the same objective with another bandwidth."""
        return msgspec.structs.replace(self, bandwidth=bandwidth)

    def rehearse(self, size: int, behavior_dim: int) -> None:
        """Do nothing: the closed forms cannot fail."""

    def remember(self, outcomes: Outcomes, memory: Memory) -> Memory:
        """Return the memory unchanged."""
        return memory

    def weights(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> tuple[Floats, Memory]:
        """Return the weights [N], and the memory for the next generation."""
        raise NotImplementedError

    def value(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> float:
        """Return the value J of the objective."""
        raise NotImplementedError
