"""What walking robots share: directions, the network, how long it acts, and where a rollout starts.

Gajewski et al. 2019, sections 5.2 and 5.3, supplement S1.2: 1,000 steps, no action noise, the same start every time;
the fitness of standard ES is the final x.
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
    """Return how far a position lies along a direction, in degrees from +x towards +y."""
    if direction % 90 == 0:  # exact; the cosine would leave a rounding error
        return (x, y, -x, -y)[int(direction // 90) % 4]
    angle = math.radians(direction)
    return math.cos(angle) * x + math.sin(angle) * y


def across(direction: float, axes: int) -> bool:
    """Return whether a robot that moves along `axes` axes cannot move in a direction."""
    return axes == 1 and direction % 180 == 90


class PolicyTask(TaskPart, frozen=True):
    """A task whose individuals are the weights of a tanh network from observations to actions."""

    hidden: tuple[Count, ...] = HIDDEN
    steps: Count = 1000
    reset_seed: Annotated[int, msgspec.Meta(ge=0)] | None = None  # of every rollout; the run's seed if not given
    observation_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.01  # of rollouts, that feed the statistics

    @property
    def parameters(self) -> int:
        """The number of weights and biases."""
        return parameter_count(self.layers)

    @property
    def observation_dim(self) -> int:
        """The number of observations, which are normalised."""
        return self.layers[0]

    def initial(self, generator: np.random.Generator) -> Singles:
        """Draw the first mean."""
        return MLP(self.layers).initial(generator)

    def start_seed(self, seed: int) -> int:
        """Return the seed with which every rollout starts."""
        return seed if self.reset_seed is None else self.reset_seed

    def policy(self) -> Policy:
        """Return the network that evaluates individuals."""
        return MLP(self.layers)
