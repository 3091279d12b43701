"""A point in the plane that must go left or right: the smallest task that MAML can learn to adapt to."""

from dataclasses import dataclass

import numpy as np

from ees_mpi.arrays import Floats, Singles
from ees_mpi.generation import Outcome
from ees_mpi.policies import MLP, parameter_count

STRIDE = 0.1


class Walker:
    """Moves by its action, clipped to +-1, times the stride; sees where it is."""

    position: tuple[float, ...] = (0.0, 0.0)

    def reset(self) -> Singles:
        self.position = (0.0, 0.0)
        return np.zeros(2, np.float32)

    def step(self, action: Singles) -> tuple[Singles, bool]:
        x, y = (float(p + STRIDE * a) for p, a in zip(self.position, np.clip(action, -1, 1), strict=True))
        self.position = (x, y)
        return np.array([x, y], np.float32), False

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Point:
    """The task; the behaviour is where it ends."""

    hidden: tuple[int, ...] = (16,)
    steps: int = 10
    behavior_dim: int = 2

    @property
    def layers(self) -> tuple[int, ...]:
        return (2, *self.hidden, 2)

    @property
    def parameters(self) -> int:
        return parameter_count(self.layers)

    def initial(self, generator: np.random.Generator) -> Singles:
        return MLP(self.layers).initial(generator)

    def open(self, seed: int) -> "Evaluator":
        return Evaluator(self)

    def walker(self, seed: int) -> Walker:
        return Walker()


class Evaluator:
    """Walks without noise; the fitness is how far to the right it ends."""

    def __init__(self, task: Point):
        self._task, self._policy = task, MLP(task.layers)

    def evaluate(self, index: int, parameters: Singles, mean: Floats, std: Floats, observe: bool) -> Outcome:
        self._policy.load(parameters)
        walker = Walker()
        observation = walker.reset()
        for _ in range(self._task.steps):
            observation, _ = walker.step(self._policy.act(observation))
        return Outcome(index, walker.position, walker.position[0], self._task.steps)

    def close(self) -> None:
        pass
