"""Tasks and behaviours of a user, wrong in one way each."""

from typing import Any

import numpy as np

from ees_mpi.outcomes import Outcome
from ees_mpi.tasks.gymnasium.task import Rollout


class Base:
    parameters = 2
    behavior_dim = 1
    behavior: Any = (1.0,)

    def initial(self, generator: Any) -> Any:
        return np.zeros(2)

    def open(self, seed: int) -> "Base":
        return self

    def evaluate(self, index: int, *rest: object) -> Any:
        return Outcome(index, self.behavior, 0.0, 1)

    def close(self) -> None:
        pass


class Marked(Base):
    def __init__(self, behavior_steps: tuple[int, ...] = (1,)) -> None:
        self.behavior = tuple(float(step) for step in behavior_steps)
        self.behavior_dim = len(self.behavior)


class TooLong(Base):
    behavior = (1.0, 2.0)


class Odd(Base):
    def initial(self, generator: Any) -> Any:
        return np.zeros(3)


class Nothing:
    pass


def two_numbers(rollout: Rollout) -> tuple[float, float]:
    return float(rollout.observations[-1][0]), sum(rollout.rewards)


def a_matrix(rollout: Rollout) -> list[list[float]]:
    return [[1.0, 2.0]]


def words(rollout: Rollout) -> list[str]:
    return ["left", "right"]
