"""The population `chosen` of version 0.2.0: its run files can be read, and their individuals rebuilt."""

import numpy as np

from ees_mpi.contracts import Population
from ees_mpi.noise import Noise
from ees_mpi.outcomes import Arrays, Draw, Singles
from ees_mpi.populations.mixture import Mixture
from ees_mpi.populations.normal import Normal


class Chosen(Normal, frozen=True, kw_only=True):
    """Several means, of which one had offspring; the first individuals are the means themselves, with sign 0."""

    components: int = 2

    retired = True

    def __post_init__(self) -> None:
        """Accept an odd size: the means are no pairs."""

    def individual(self, learned: Arrays, draw: Draw, index: int, noise: Noise) -> Singles:
        """Return the parameters [D] of one individual: of a mean, or of an offspring."""
        if draw.sign[index] == 0:
            return np.array(learned["mean"][draw.parent[index]])
        return super().individual(learned, draw, index, noise)

    individuals = Population.individuals  # that of `Normal` does not know the sign 0

    def offspring(self, count: int, std: float | None) -> Normal:
        """Return the population of `count` independent offspring of random ones of the means."""
        return Mixture(size=count, std=std or self.std, antithetic=False, components=self.components)
