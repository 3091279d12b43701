"""The rows of a generation of MAML: tasks, each to walk in a direction or in the opposite one."""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from ees_mpi.generation import Draw
from ees_mpi.registry import key
from ees_mpi.strategy.populations.base import Population
from ees_mpi.strategy.populations.normal import SMALLEST_STD, Normal


class MamlTasks(Population, frozen=True):
    """`size` tasks per outer iteration; `std`: of the mutations that `sample` draws around the learned mean."""

    size: Annotated[int, key("The number of tasks in an outer iteration.", "tasks", ge=2)] = 40
    std: Annotated[
        float, key("The standard deviation of the mutations that `ees-mpi sample` draws.", ge=SMALLEST_STD, le=1e30)
    ] = 0.02

    row_name = "task"
    has_individuals = False

    def directions(self, generator: np.random.Generator) -> Draw:
        """Draw the directions: sign +1 is the direction of the config, -1 the opposite one; half of the tasks each."""
        sign: NDArray[np.int8] = np.where(np.arange(self.size) % 2 == generator.integers(2), 1, -1).astype(np.int8)
        nothing = np.zeros(self.size, np.int64)
        return Draw(nothing, generator.permutation(sign), nothing.astype(np.int32))

    def offspring(self, count: int, std: float | None) -> Normal:
        return Normal(size=count, std=std or self.std, antithetic=False)
