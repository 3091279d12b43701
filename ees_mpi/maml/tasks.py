"""The population of a MAML run: tasks, to walk in the task's direction or against it."""

from typing import Annotated, NoReturn

import msgspec
import numpy as np

from ees_mpi.errors import RunFileError
from ees_mpi.noise import Noise
from ees_mpi.outcomes import Draw, Singles
from ees_mpi.populations.normal import Normal
from ees_mpi.registry import Part


class Tasks(Part, frozen=True):
    """`size` tasks per outer batch; `std`: of the mutations that `sample` makes of what was learned."""

    size: Annotated[int, msgspec.Meta(ge=2)] = 40
    std: Annotated[float, msgspec.Meta(gt=0)] = 0.02

    @property
    def components(self) -> int:
        """The number of means."""
        return 1

    def draw(self, generator: np.random.Generator, noise: Noise | None, parameters: int) -> Draw:
        """Draw the direction of each task, equally likely: sign +1 is along the task's direction, -1 against it.

        Half of them each way, in random order, so that a small batch holds both.
        """
        sign = np.where(np.arange(self.size) % 2 == generator.integers(2), 1, -1).astype(np.int8)
        nothing = np.zeros(self.size, np.int64)
        return Draw(nothing, generator.permutation(sign), nothing.astype(np.int32))

    def individual(self, means: Singles, draw: Draw, index: int, noise: Noise) -> NoReturn:
        """Refuse: there is nothing to rebuild."""
        raise RunFileError(
            "the individuals of a MAML run are tasks, not parameters; its mean can be exported, replayed and sampled"
        )

    def warning(self, means: Singles) -> str | None:
        """Say what is wrong with the means, without being an error; one mean cannot be."""
        return None

    def mutations(self, count: int, std: float | None) -> Normal:
        """Return the population of some mutations of the mean."""
        return Normal(size=count, std=std or self.std, antithetic=False)
