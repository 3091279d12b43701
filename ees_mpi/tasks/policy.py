"""What tasks with a neural network policy have in common: the network, how long it acts, what is observed."""

import math
from typing import Annotated, Any

import msgspec
import numpy as np

from ees_mpi.outcomes import Singles
from ees_mpi.policies import HIDDEN, MLP, parameter_count
from ees_mpi.registry import Part

Count = Annotated[int, msgspec.Meta(ge=1)]


def along(direction: float, x: float, y: float = 0.0) -> float:
    """Measure a position along a direction, in degrees from +x towards +y."""
    if direction % 90 == 0:  # exactly so, where the cosine would leave dust
        return (x, y, -x, -y)[int(direction // 90) % 4]
    angle = math.radians(direction)
    return math.cos(angle) * x + math.sin(angle) * y


def across(direction: float, axes: int) -> bool:
    """Tell whether nothing that moves along so many axes can get anywhere in a direction."""
    return axes == 1 and direction % 180 == 90


class PolicyTask(Part, frozen=True):
    """A task whose individuals are the weights of a tanh network from observations to actions."""

    hidden: tuple[Count, ...] = HIDDEN
    steps: Count = 1000
    reset_seed: Annotated[int, msgspec.Meta(ge=0)] | None = None  # of every rollout; the run's seed where not given
    observation_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.01  # of rollouts, that feed the statistics

    @property
    def layers(self) -> tuple[int, ...]:
        """The sizes of all layers, from observation to action."""
        raise NotImplementedError

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

    def seed(self, run_seed: int) -> int:
        """Return the seed with which every rollout starts."""
        return run_seed if self.reset_seed is None else self.reset_seed

    def policy(self) -> Any:
        """Make the network that evaluates individuals."""
        return MLP(self.layers)
