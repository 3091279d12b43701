"""What all objectives have."""

from collections.abc import Sequence

from ees_mpi.arrays import Arrays, Bandwidth, Floats
from ees_mpi.generation import Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.registry import Part

Memory = Arrays  # the arrays that an objective carries from one generation to the next


class Objective(Part, frozen=True):
    """Turns the outcomes of a generation into one weight per individual; without a kernel and without a memory.

    A subclass defines `weights` and, if it has a label, `value`; and it overrides the other members as needed.
    """

    climbs = "variance"  # the metric that progress lines show; empty: the value of the user's function
    uses_torch = False
    uses_fitness = False
    remembers = False  # whether it has a memory, so that earlier generations matter
    starts = 1  # of each individual that it needs, at least

    def weights(self, outcomes: Outcomes, memory: Memory, ranks: Ranks) -> Floats:
        """Return the weights [N]; called on all ranks together."""
        raise NotImplementedError

    def remember(self, outcomes: Outcomes, memory: Memory) -> Memory:
        """Return the memory for the next generation."""
        return memory

    def value(self, outcomes: Outcomes, ranks: Ranks) -> float:
        """Return the value J of the objective itself, which is logged under its label."""
        raise NotImplementedError

    @property
    def label(self) -> str:  # the name of the user's function, whose value is logged; empty: a built-in objective
        return ""

    @property
    def bandwidth(self) -> Bandwidth | None:  # of its kernel; None: it has no kernel
        return None

    @property
    def members(self) -> "Sequence[tuple[float, Objective]]":  # (share, objective) of a blend; itself otherwise
        return ((1.0, self),)

    def try_out(self, size: int, behavior_dim: int) -> None:
        """Find errors that appear only when the objective is computed, before the run file is touched."""
