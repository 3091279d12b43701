"""One isotropic Gaussian around one mean, with antithetic pairs.

Salimans et al. 2017 (arXiv:1703.03864); Gajewski et al. 2019, section 2.3.

    z_i = mean + std s_i eps_i          s_i = +1, -1 for the two individuals of a pair, which share eps
    gradient = sum_i w_i grad log p(z_i) = sum_i w_i s_i eps_i / std
    std of the next generation = max(std_decay * std, std_min), as in the authors' program
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Arrays, Floats, Singles
from ees_mpi.generation import Draw
from ees_mpi.noise import Noise
from ees_mpi.ranks import Ranks
from ees_mpi.registry import key
from ees_mpi.strategy.populations.base import Population
from ees_mpi.strategy.populations.weighted import weighted_noise

SMALLEST_STD = 1e-30  # gradients are divided by its square


class Normal(Population, frozen=True):
    """Draws `size` individuals of standard deviation `std` around one mean."""

    size: Annotated[int, key("N: the number of individuals in a generation.", "individuals", ge=2)]
    std: Annotated[float, key("The standard deviation of the mutations around their mean.", gt=0, le=1e30)]
    antithetic: Annotated[bool, key("Whether individuals come in pairs with opposite noise.")] = True
    std_decay: Annotated[
        float, key("After each generation the std is multiplied by this number; 1 if the std is learned.", gt=0, le=1)
    ] = 1.0
    std_min: Annotated[float, key("The std decays to this number, and no further.", ge=SMALLEST_STD)] = 0.001

    def __post_init__(self) -> None:
        if self.decays and self.std_min > self.std:
            expected = f"expected at most population.std = {self.std:g}"
            raise ValueError(f"population.std_min: {expected}, from which it decays, got {self.std_min:g}")
        if self.std < SMALLEST_STD:
            raise ValueError(f"population.std: expected at least {SMALLEST_STD:g}, got {self.std:g}")
        if self.antithetic and self.size % 2:
            raise ValueError(
                f"population.size: expected an even number for antithetic pairs, got {self.size}; "
                "or set antithetic = false"
            )

    @property
    def decays(self) -> bool:
        return self.std_decay < 1

    def std_at(self, generation: int) -> float:
        """Return the std of a generation. It is multiplied step by step: a power may have other bits elsewhere."""
        std = self.std
        for _ in range(generation if self.decays else 0):
            std = max(self.std_decay * std, self.std_min)
            if std == self.std_min:
                break
        return std

    def draw(self, generator: np.random.Generator, noise: Noise, parameters: int) -> Draw:
        """Draw the noise offset of each individual; the two individuals of a pair have neighbouring indices."""
        pairs = self.size // 2 if self.antithetic else self.size
        offset = generator.integers(0, noise.size - parameters + 1, pairs)
        sign = np.ones(self.size, np.int8)
        if self.antithetic:
            offset = np.repeat(offset, 2)
            sign[1::2] = -1
        return Draw(offset, sign, np.zeros(self.size, np.int32))

    def individual(self, learned: Arrays, draw: Draw, index: int, noise: Noise) -> Singles:
        mean: Singles = learned["mean"][draw.parent[index]]
        std = self.stds(learned, draw)
        z: Singles = noise.row(draw.offset[index], mean.size) * (std if draw.sign[index] > 0 else -std)
        z += mean
        return z

    def individuals(self, learned: Arrays, draw: Draw, index: Sequence[int], noise: Noise) -> Singles:
        means, std, mine = learned["mean"], self.stds(learned, draw), draw.at(np.array(index, np.int64))
        z = np.empty((len(index), means.shape[1]), np.float32)
        step, last = np.empty_like(means[0]), -1
        for row, offset, sign, parent in zip(z, mine.offset.tolist(), mine.sign.tolist(), mine.parent, strict=True):
            if offset != last:  # the two individuals of a pair have the same noise
                step, last = np.multiply(noise.row(offset, step.size), std, out=step), offset
            (np.add if sign > 0 else np.subtract)(means[parent], step, out=row)
        return z

    def offspring(self, count: int, std: float | None) -> "Normal":
        return msgspec.structs.replace(self, size=count, std=std or self.std, antithetic=False, std_decay=1.0)

    def gradient(self, weights: Floats, draw: Draw, learned: Arrays, noise: Noise, ranks: Ranks) -> Arrays:
        """Turn weights [N] into the gradient of the mean [1, D]."""
        coefficient, offset = self.noise_terms(weights, draw)
        return {"mean": weighted_noise(coefficient, offset, learned["mean"].shape[1], noise, ranks)[None]}

    def noise_terms(self, weights: Floats, draw: Draw) -> tuple[Floats, NDArray[np.int64]]:
        """Return the coefficients and offsets of the noise rows in a gradient; a pair shares one row."""
        return self._rows(weights * draw.sign / (self.std if draw.std is None else draw.std), draw)

    def _rows(self, terms: Floats, draw: Draw) -> tuple[Floats, NDArray[np.int64]]:
        """Return one coefficient and offset for each noise row, from the coefficients [N] of the individuals."""
        return (terms[0::2] + terms[1::2], draw.offset[0::2]) if self.antithetic else (terms, draw.offset)
