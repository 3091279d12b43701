"""Several means, of which each generation chooses one: only that mean has offspring and moves.

Conti et al. 2018 (arXiv:1712.06560), section 3: a population of M policies.

    P(m) = novelty of mean m / sum over all means     these chances come from the objective; at first they are 1 / K
    z_i = mean_m + std s_i eps_i                      gradient_m = sum_i w_i s_i eps_i / std, of the others 0

The first K individuals of a generation are the K means themselves (sign 0), because the objective needs their
behaviours; `size` includes them. Each mean has its own moments and its own number of steps, as in the authors' program.
"""

from typing import Annotated

import numpy as np

from ees_mpi.contracts import Step
from ees_mpi.errors import OwnCodeError
from ees_mpi.noise import Noise
from ees_mpi.outcomes import Arrays, Draw, Floats, Singles
from ees_mpi.populations.mixture import MOST, Mixture
from ees_mpi.populations.normal import Normal
from ees_mpi.ranks import Ranks
from ees_mpi.registry import key


class Chosen(Normal, frozen=True, kw_only=True):
    """`components` means; in each generation one of them, chosen by its novelty, has offspring and moves."""

    components: Annotated[int, key("K: the number of means.", "means", ge=1, le=MOST)] = 2

    has_means = True

    def __post_init__(self) -> None:
        try:
            _ = self._offspring
        except ValueError as error:
            raise ValueError(f"{error} (`size` without the {self.components} means)") from None
        if self.size < self.components + 2:
            raise ValueError(f"population.size: expected at least components + 2 individuals, got {self.size}")

    @property
    def _offspring(self) -> Normal:
        """The offspring of the chosen mean."""
        return Normal(size=self.size - self.components, std=self.std, antithetic=self.antithetic)

    def draw(self, generator: np.random.Generator, noise: Noise, parameters: int) -> Draw:
        """Draw the means, and the noise offsets of the offspring, as yet of mean 0; `choose` chooses the mean."""
        drawn, none = self._offspring.draw(generator, noise, parameters), np.zeros(self.components, np.int64)
        parent = np.concatenate([np.arange(self.components, dtype=np.int32), drawn.parent])
        return Draw(np.concatenate([none, drawn.offset]), np.concatenate([none.astype(np.int8), drawn.sign]), parent)

    def choose(self, draw: Draw, chances: Floats | None, generator: np.random.Generator) -> Draw:
        """Return the draw with offspring of one mean; `chances` [K]: of each mean, None: equal ones."""
        chosen = generator.choice(self.components, p=chances)
        return Draw(draw.offset, draw.sign, np.where(draw.sign == 0, draw.parent, np.int32(chosen)))

    def individual(self, learned: Arrays, draw: Draw, index: int, noise: Noise) -> Singles:
        """Return the parameters [D] of one individual: of a mean, or of an offspring."""
        if draw.sign[index] == 0:
            return np.array(learned["mean"][draw.parent[index]])
        return super().individual(learned, draw, index, noise)

    def gradient(self, weights: Floats, draw: Draw, learned: Arrays, noise: Noise, ranks: Ranks) -> Arrays:
        """Turn weights [N] into the gradient of the means [K, D], which is 0 for all but the chosen one."""
        born, chosen = np.flatnonzero(draw.sign), draw.parent[-1]
        gradient = np.zeros(learned["mean"].shape)
        gradient[chosen] = self._offspring.gradient(weights[born], draw.at(born), learned, noise, ranks)["mean"][0]
        return {"mean": gradient}

    def move(self, step: Step, learned: Arrays, gradient: Arrays, moments: Arrays, draw: Draw) -> tuple[Arrays, Arrays]:
        """Return the learned arrays and moments after a step of the chosen mean; those of the others stay."""
        each = {name: self._each(name, array) for name, array in moments.items()}
        chosen = int(draw.parent[-1])
        row = slice(chosen, chosen + 1)
        own = {name: np.asarray(array[row] if array.ndim > 1 else array[chosen]) for name, array in each.items()}
        moved, grown = step({"mean": learned["mean"][row]}, {"mean": gradient["mean"][row]}, own)
        following = learned["mean"].copy()
        following[row] = moved["mean"]
        for name, array in grown.items():
            each[name][row] = array
        return {"mean": following}, each

    def _each(self, name: str, moment: Floats) -> Floats:
        """Return a copy of a moment with a row for each mean; the number of steps is one number at first."""
        if moment.ndim == 0:
            return np.full(self.components, moment)
        if len(moment) != self.components:
            raise OwnCodeError(f"optimizer: moment {name}: expected a row for each of {self.components} means")
        return moment.copy()

    def offspring(self, count: int, std: float | None) -> Normal:
        """Return the population of `count` independent offspring of random ones of the means."""
        return Mixture(size=count, std=std or self.std, antithetic=False, components=self.components)
