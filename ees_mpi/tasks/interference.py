"""The interference pattern: one parameter. Its mutations differ most at the maximum of the slow wave.

Gajewski et al. 2019, section 5.1 and supplement S1.2.

    f(x) = 5 sin(x / 5) sin(20 x);    the best x is 5 pi / 2 = 7.854
"""

import math
from typing import Annotated

import numpy as np

from ees_mpi.arrays import Floats, Singles
from ees_mpi.generation import Outcome
from ees_mpi.registry import key
from ees_mpi.tasks.base import Task

OPTIMUM = 2.5 * math.pi


def pattern(x: float) -> float:
    """Return the behaviour of genome x; not a number for a genome that is none."""
    return math.nan if not math.isfinite(x) else 5.0 * math.sin(x / 5.0) * math.sin(20.0 * x)


class Interference(Task, frozen=True):
    """The interference pattern: one parameter."""

    start: Annotated[float, key("The first mean.", ge=-1e30, le=1e30)] = 1.0

    parameters = 1
    behavior_dim = 1

    def initial(self, generator: np.random.Generator) -> Singles:
        return np.array([self.start], np.float32)

    def open(self, seed: int) -> "Interference":
        """Return the evaluator: the task itself."""
        return self

    def evaluate(
        self, index: int, parameters: Singles, observation_mean: Floats, observation_std: Floats, observe: bool
    ) -> Outcome:
        """Evaluate one individual; its fitness is its behaviour."""
        value = pattern(float(parameters[0]))
        return Outcome(index, (value,), value, 1)

    def close(self) -> None:
        """Do nothing: there are no resources to release."""
