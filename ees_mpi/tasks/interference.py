"""The interference pattern: one parameter, whose mutations differ most where the slow wave is highest.

Gajewski et al. 2019, section 4.1 and supplement S1.2.

    f(x) = 5 sin(x / 5) sin(20 x);    the best x is 5 pi / 2 = 7.854
"""

import math

import numpy as np

from ees_mpi.outcomes import Floats, Outcome, Singles
from ees_mpi.registry import Part

OPTIMUM = 2.5 * math.pi


def pattern(x: float) -> float:
    """The behaviour of genome x."""
    return 5.0 * math.sin(x / 5.0) * math.sin(20.0 * x)


class Interference(Part, frozen=True):
    """The task; `start`: the x at which the mean begins. It needs nothing opened: it evaluates itself."""

    start: float = 1.0

    parameters = 1
    behavior_dim = 1
    observation_dim = 0
    observation_share = 0.0

    def initial(self, generator: np.random.Generator) -> Singles:
        """Return the first mean."""
        return np.array([self.start], np.float32)

    def open(self, seed: int) -> "Interference":
        """Return what evaluates individuals: the task itself."""
        return self

    def evaluate(
        self,
        index: int,
        parameters: Singles,
        observation_mean: Floats,
        observation_std: Floats,
        observe: bool,
    ) -> Outcome:
        """Evaluate one individual; its fitness is its behaviour."""
        value = pattern(float(parameters[0]))
        return Outcome(index, (value,), value, 1)

    def close(self) -> None:
        """Let go of nothing."""
