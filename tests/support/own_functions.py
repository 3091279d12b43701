"""Tasks of a user: functions with invalid rollouts and with random starts, a class with random first means; weights."""

from typing import Any

import numpy as np

from ees_mpi.generation import Outcome
from support.own_tasks import Base

PARAMETERS = 5


def waves(z, seed=0):
    """Return a behaviour of 2 numbers and a fitness; some rollouts are invalid."""
    valid = 1.0 if z[1] < 0.42 else np.nan
    return np.array([np.sin(5 * z[0]) + z[2], z[1] * z[3] * valid]), float(z[4] - abs(z[0]))


def mostly_invalid(z):
    """Return a behaviour that is valid for about a third of the individuals, and too large for another third."""
    if z[1] > 0.05:
        return [z[0], z[1]]
    return [z[0], 1e101 if z[1] > -0.05 else np.nan]


def started(z, seed):
    """Return a behaviour and a fitness that depend on the start."""
    start = np.random.default_rng(seed).standard_normal(2)
    behavior, fitness = waves(z)
    return behavior + 0.1 * start * (1 + z[:2]), fitness + float(start[0])


class Started(Base):
    """The function `started` with 200 parameters; each mean of a mixture begins elsewhere."""

    parameters, behavior_dim = 200, 2

    def initial(self, generator: Any) -> Any:
        return generator.normal(0.3, 0.03, self.parameters)

    def open(self, seed: int) -> Any:
        self.reseed(seed)
        return self

    def reseed(self, seed: int) -> None:
        self.seed = seed

    def evaluate(self, index: int, *rest: Any) -> Outcome:
        behavior, fitness = started(rest[0], self.seed)
        return Outcome(index, behavior, fitness, 1)


def raises(z):
    """Raise an exception for some individuals."""
    if z[0] > 0.15:
        raise ValueError("too far")
    return z


def raises_in_a_call(z):
    """Raise an exception for some calls of several individuals."""
    if (z[:, 0] > 0.15).any() and len(z) < 64:
        raise ValueError("too far")
    return z


def outermost(behaviors, fitness, power=4.0):
    """Return weights of an objective: a power of the distance from the mean behaviour."""
    return np.linalg.norm(behaviors, axis=1) ** power
