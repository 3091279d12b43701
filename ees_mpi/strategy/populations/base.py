"""What all populations have, and what a population of the user needs."""

from collections.abc import Sequence
from typing import Protocol

import msgspec
import numpy as np

from ees_mpi.arrays import Arrays, Floats, Singles
from ees_mpi.generation import Draw
from ees_mpi.noise import Noise
from ees_mpi.ranks import Ranks
from ees_mpi.registry import Part


class PopulationPlugin(Protocol):
    """Draws individuals around its learned arrays, and turns weights into a gradient for each of those arrays.

    The learned arrays are `mean` [K, D] and whatever else it learns. `Population(size, std, components, **settings)`.
    """

    def draw(self, generator: np.random.Generator, noise: Noise, parameters: int) -> Draw:
        """Draw the individuals of a generation."""

    def individual(self, learned: Arrays, draw: Draw, index: int, noise: Noise) -> Singles:
        """Return the parameters [D] of one individual."""

    def gradient(self, weights: Floats, draw: Draw, learned: Arrays, noise: Noise, ranks: Ranks) -> Arrays:
        """Turn weights [N] into the gradient of each learned array; called on all ranks together."""


class Population(Part, frozen=True):
    """Draws individuals, and turns weights into a gradient: a subclass defines the members of `PopulationPlugin`.

    The rows of another method, which are no individuals, have the other members only.
    """

    row_name = "individual"  # of a row of the run file: "individual", "task"
    has_individuals = True  # whether a row is an individual, which can be rebuilt
    size = 0  # N
    std = 0.0
    components = 1  # K
    antithetic = False  # whether individuals come in pairs of opposite sign
    isotropic = True  # whether an individual is mean + sign * std * noise, with one std for all
    learns_std = False  # whether each parameter has a learned std

    def learned(self, means: Singles) -> Arrays:
        """Return the learned arrays before the first generation, from initial means [K, D]."""
        return {"mean": means}

    def more_learned(self, parameters: int) -> int:
        """Return how many numbers a population of the user learns beside its means of D parameters."""
        return 0

    def try_out(self, parameters: int) -> None:
        """Find errors of the user's code before the run file is touched."""

    def clip(self, learned: Arrays) -> Arrays:
        """Return the learned arrays after a step, within their limits; a mean has none."""
        return learned

    @property
    def decays(self) -> bool:
        """Whether the std falls from generation to generation."""
        return False

    def std_at(self, generation: int) -> float:
        """Return the std of a generation."""
        return self.std

    def stds(self, learned: Arrays, draw: Draw) -> float | Singles:
        """Return the std of individuals: one for all parameters, or that of each [D] if they are learned."""
        return self.std if draw.std is None else draw.std

    def offspring(self, count: int, std: float | None) -> "Population":
        """Return the population of `count` independent offspring of the same means; `std`: None: the same."""
        return msgspec.structs.replace(self, size=count, std=std or self.std)

    def draw(self, generator: np.random.Generator, noise: Noise, parameters: int) -> Draw:
        raise NotImplementedError

    def individual(self, learned: Arrays, draw: Draw, index: int, noise: Noise) -> Singles:
        raise NotImplementedError

    def individuals(self, learned: Arrays, draw: Draw, index: Sequence[int], noise: Noise) -> Singles:
        """Return the parameters [n, D] of some individuals."""
        z = np.empty((len(index), learned["mean"].shape[1]), np.float32)
        for row, one in zip(z, index, strict=True):
            row[:] = self.individual(learned, draw, one, noise)
        return z

    def gradient(self, weights: Floats, draw: Draw, learned: Arrays, noise: Noise, ranks: Ranks) -> Arrays:
        raise NotImplementedError
