"""The interference pattern: one parameter, whose mutations differ most where the slow wave is highest.

Gajewski et al. 2019, section 5.1 and supplement S1.2.

    f(x) = 5 sin(x / 5) sin(20 x);    the best x is 5 pi / 2 = 7.854
"""

import math

import numpy as np

from ees_mpi.outcomes import Floats, Outcome, Singles
from ees_mpi.tasks.base import TaskPart

OPTIMUM = 2.5 * math.pi


def pattern(x: float) -> float:
    """Return the behaviour of genome x."""
    return 5.0 * math.sin(x / 5.0) * math.sin(20.0 * x)


class Interference(TaskPart, frozen=True):
    """The task; `start`: the first mean. The task is its own evaluator."""

    start: float = 1.0

    @property
    def parameters(self) -> int:
        """The length of an individual."""
        return 1

    @property
    def behavior_dim(self) -> int:
        """How many numbers a behaviour has."""
        return 1

    def initial(self, generator: np.random.Generator) -> Singles:
        """Return the first mean."""
        return np.array([self.start], np.float32)

    def open(self, seed: int) -> "Interference":
        """Return the evaluator: the task itself."""
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
        """Release nothing."""
