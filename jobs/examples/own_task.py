"""An example of your own task: a throw whose mutations should land in different places.

    ees-mpi train jobs/examples/own_task.toml --out throw.h5        (in the folder that holds `jobs`)

A task needs `parameters`, `behavior_dim`, `initial` and `open`. `open` returns something with the
members of `ees_mpi.tasks.base.Rollouts`; here the task itself has them.
"""

import math

import numpy as np

from ees_mpi.arrays import Floats, Singles
from ees_mpi.generation import Outcome
from ees_mpi.tasks.base import Rollouts


class Throw:
    """Throw a ball. The two parameters are angle and speed; the behaviour is the place where the ball lands."""

    parameters = 2
    behavior_dim = 1

    def __init__(self, gravity: float = 9.8):
        self.gravity = gravity

    def initial(self, generator: np.random.Generator) -> Singles:
        """Return the first mean [parameters]; draw random numbers from `generator` only."""
        return np.array([0.2, 1.0], np.float32)

    def open(self, seed: int) -> Rollouts:
        """Return the evaluator of this rank; `seed`: the run's."""
        return self

    def evaluate(
        self, index: int, parameters: Singles, observation_mean: Floats, observation_std: Floats, observe: bool
    ) -> Outcome:
        """Return the outcome of one individual. It must depend on the arguments only."""
        angle, speed = float(parameters[0]), float(parameters[1])
        landed = speed * speed * math.sin(2 * angle) / self.gravity
        return Outcome(index, behavior=(landed,), fitness=landed, length=1)

    def close(self) -> None:
        """Release the resources of the task; this one has none."""
