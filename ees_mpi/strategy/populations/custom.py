"""A population that a user writes: `population.function = "package.module:Population"`.

`Population(size, std, components, **settings)` has the members of `base.PopulationPlugin`: `draw`, `individual`
and `gradient`. Optional: `learned(means)`, if it learns more arrays than its means, and `warning(learned)`. `sample`
and `adapt` make it again with another size and std. `docs/plugins.md` has an example.
"""

from typing import Annotated, Any

import numpy as np

from ees_mpi.arrays import Arrays, Floats, Singles, readonly
from ees_mpi.errors import PluginError
from ees_mpi.generation import Draw, flat_learned
from ees_mpi.noise import Noise
from ees_mpi.ranks import Ranks
from ees_mpi.registry import key
from ees_mpi.registry.plugins import as_table, calling, like, make_once
from ees_mpi.strategy.populations.base import Population

KEY = "population.function"
TRIED = 8  # individuals
TAKEN = ("generation", "observations")  # other arrays of the state have these names


class CustomPopulation(Population, frozen=True):
    """A population that a user writes."""

    function: Annotated[str, key("The class of the population, as package.module:Population.")]
    size: Annotated[int, key("N: the number of individuals in a generation.", "individuals", ge=2)]
    std: Annotated[float, key("The standard deviation, as your class understands it.", gt=0, le=1e30)]
    components: Annotated[int, key("K: the number of means.", "means", ge=1)] = 1
    settings: Annotated[dict[str, Any], key("Further arguments of the class, by name.")] = {}  # noqa: RUF012

    isotropic = False

    @property
    def population(self) -> Any:
        shape = {"size": self.size, "std": self.std, "components": self.components}
        return make_once(self.function, KEY, "draw individual gradient", self.settings, **shape)

    def check(self) -> None:
        """Raise a ConfigError if the user's class cannot be made, or lacks a member."""
        _ = self.population

    def try_out(self, parameters: int) -> None:
        """Draw a few individuals and compute a gradient from random weights."""
        few = self.offspring(TRIED, None)
        generator = np.random.default_rng(0)
        learned = self.learned(np.zeros((self.components, parameters), np.float32))
        noise = Noise(0, parameters + 1000)
        draw = few.draw(generator, noise, parameters)
        few.individual(learned, draw, TRIED - 1, noise)
        few.gradient(generator.normal(size=TRIED), draw, learned, noise, Ranks())

    def more_learned(self, parameters: int) -> int:
        return flat_learned(self.learned(np.zeros((self.components, parameters), np.float32))).size

    def learned(self, means: Singles) -> Arrays:
        if not hasattr(self.population, "learned"):
            return {"mean": means}
        arrays = as_table(self.population.learned(means), f"{self._code}: learned()", np.float32)
        if "mean" not in arrays or arrays["mean"].shape != means.shape:
            raise self._error(f"learned() must return the means, of shape {means.shape}, as 'mean'")
        if taken := [name for name in arrays if not name.isidentifier() or name in TAKEN]:
            raise self._error(f"learned() returned an array {taken[0]!r}; choose another name")
        return arrays

    def draw(self, generator: np.random.Generator, noise: Noise, parameters: int) -> Draw:
        """Return the user's draw of a generation, checked."""
        draw = self.population.draw(generator, noise, parameters)
        if not isinstance(draw, Draw):
            raise self._error(f"draw() returned {type(draw).__name__}; expected an ees_mpi.generation.Draw")
        limits = {"offset": (0, noise.size - parameters), "sign": (-128, 127), "parent": (0, self.components - 1)}
        with calling(self._code, "draw()"):
            arrays = {name: np.asarray(getattr(draw, name)) for name in limits}
        for name, (low, high) in limits.items():
            array = arrays[name]
            if array.shape != (self.size,) or array.dtype.kind not in "iu" or array.min() < low or array.max() > high:
                raise self._error(
                    f"draw() returned {name} of shape {array.shape} and type {array.dtype}; expected {self.size} "
                    f"integers from {low} to {high}"
                )
        offset, sign, parent = arrays.values()
        return Draw(offset.astype(np.int64), sign.astype(np.int8), parent.astype(np.int32))

    def individual(self, learned: Arrays, draw: Draw, index: int, noise: Noise) -> Singles:
        with calling(self._code, "individual()"):
            z = np.array(self.population.individual(readonly(learned), draw, index, noise), np.float32, order="C")
        if z.shape != learned["mean"].shape[1:]:
            raise self._error(f"individual() returned the shape {z.shape}; expected {learned['mean'].shape[1:]}")
        return z

    def gradient(self, weights: Floats, draw: Draw, learned: Arrays, noise: Noise, ranks: Ranks) -> Arrays:
        gradient = self.population.gradient(weights, draw, readonly(learned), noise, ranks)
        return like(gradient, learned, f"{self._code}: gradient()", np.float64)

    @property
    def _code(self) -> str:
        return f"{KEY} {self.function}"

    def _error(self, message: str) -> Exception:
        return PluginError(f"{self._code}: {message}")
