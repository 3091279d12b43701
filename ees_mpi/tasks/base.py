"""The defaults of a task: everything in `contracts.Task` that not every task has."""

from typing import Self

import msgspec
import numpy as np

from ees_mpi.contracts import Drawable, Evaluator, View, Walker
from ees_mpi.outcomes import Singles
from ees_mpi.registry import Part


class TaskPart(Part, frozen=True):
    """A task without observations, network, position or direction. A member adds what it has."""

    @property
    def parameters(self) -> int:
        """The length D of an individual."""
        raise NotImplementedError

    @property
    def behavior_dim(self) -> int:
        """How many numbers B a behaviour has."""
        raise NotImplementedError

    @property
    def observation_dim(self) -> int:
        """How many observations O are normalised."""
        return 0

    @property
    def observation_share(self) -> float:
        """The share of rollouts that feed the observation statistics."""
        return 0.0

    @property
    def axes(self) -> int:
        """How many of the last behaviour numbers are the final position."""
        return 0

    @property
    def layers(self) -> tuple[int, ...]:
        """The sizes of the policy's layers, from observation to action."""
        return ()

    @property
    def steps(self) -> int:
        """The number of steps of a rollout, at most."""
        return 1

    @property
    def heading(self) -> float | None:
        """The direction, in degrees from +x towards +y, in which distance is fitness."""
        return None

    @property
    def walkable(self) -> bool:
        """Whether `walker` returns a robot that is controlled step by step."""
        return False

    @property
    def label(self) -> str:
        """The name that users know, if it is not the registered one."""
        return ""

    def initial(self, generator: np.random.Generator) -> Singles:
        """Draw the first mean [D]."""
        raise NotImplementedError

    def open(self, seed: int) -> Evaluator:
        """Return an evaluator for this rank."""
        raise NotImplementedError

    def start_seed(self, seed: int) -> int:
        """Return the seed with which every rollout starts."""
        return seed

    def starting_with(self, reset_seed: int) -> Self:
        """Return the same task with another seed for the start of its rollouts."""
        return msgspec.structs.replace(self, reset_seed=reset_seed)

    def toward(self, direction: float) -> Self:
        """Return the same task with another direction."""
        return msgspec.structs.replace(self, direction=direction)

    def film(self, seed: int, view: View) -> Drawable | None:
        """Return an evaluator that can be filmed: there is nothing to draw."""
        return None

    def walker(self, seed: int) -> Walker | None:
        """Return a robot that is controlled step by step: the task has none."""
        return None
