"""The parts that the tasks of all walking robots share: directions, the network, the start and length of a rollout.

Gajewski et al. 2019, sections 5.2 and 5.3, supplement S1.2. A rollout has 1,000 steps, no action noise, and always the
same start. The fitness of standard ES is the final x.
"""

import math
from typing import Annotated

import msgspec
import numpy as np

from ees_mpi.contracts import Policy
from ees_mpi.outcomes import Singles
from ees_mpi.policies import HIDDEN, MLP, parameter_count
from ees_mpi.tasks.base import TaskPart

Count = Annotated[int, msgspec.Meta(ge=1)]


def along(direction: float, x: float, y: float = 0.0) -> float:
    """Return the component of a position along a direction, in degrees from +x towards +y."""
    if direction % 90 == 0:  # exact; a cosine would have a rounding error
        return (x, y, -x, -y)[int(direction // 90) % 4]
    angle = math.radians(direction)
    return math.cos(angle) * x + math.sin(angle) * y


def across(direction: float, axes: int) -> bool:
    """Return whether a robot with this number of axes cannot move in a direction."""
    return axes == 1 and direction % 180 == 90


class PolicyTask(TaskPart, frozen=True):
    """A task whose individuals are the weights of a tanh network from observations to actions."""

    hidden: tuple[Count, ...] = HIDDEN
    steps: Count = 1000
    reset_seed: Annotated[int, msgspec.Meta(ge=0)] | None = None  # of every rollout; None: the run's seed
    observation_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = (
        0.01  # of rollouts; they feed the observation statistics
    )

    @property
    def parameters(self) -> int:
        """Return the number of weights and biases."""
        return parameter_count(self.layers)

    @property
    def observation_dim(self) -> int:
        """Return the number of observations, all of which are normalised."""
        return self.layers[0]

    def initial(self, generator: np.random.Generator) -> Singles:
        """Draw the first mean."""
        return MLP(self.layers).initial(generator)

    def start_seed(self, seed: int) -> int:
        """Return the seed with which every rollout starts; `seed`: the run's."""
        return seed if self.reset_seed is None else self.reset_seed

    def policy(self) -> Policy:
        """Return the network that evaluates individuals."""
        return MLP(self.layers)
