"""The update of an evolution strategy: `ask` draws a generation, `tell` computes the next state from its outcomes.

Gajewski et al. 2019, section 3.

    z_i = individual i of the draw          w = objective.weights(outcomes)          next mean = step(mean, gradient(w))

Both are pure: they read and write no files, and change nothing in place. No other module computes an update.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ees_mpi.config import Config, Evolution, rank_bytes
from ees_mpi.generation.state import State
from ees_mpi.noise import Noise, NoiseTable, shared_table, stream
from ees_mpi.outcomes import Arrays, Draw, Floats, Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.objectives.base import Objective
from ees_mpi.strategy.optimizers.base import Optimizer
from ees_mpi.strategy.populations.base import Population


@dataclass(frozen=True)
class Update:
    """The parts of an evolution strategy that turn one state into the next."""

    population: Population
    objective: Objective
    optimizer: Optimizer
    noise: Noise
    seed: int

    @classmethod
    def of(cls, config: Config, noise: Noise) -> "Update":
        """Return the update of a config of an evolution strategy."""
        method = config.method
        if not isinstance(method, Evolution):
            raise TypeError(f"expected a config of an evolution strategy, got method {method.name!r}")
        return cls(config.population, method.objective, method.optimizer, noise, config.run.seed)

    @classmethod
    def open(cls, config: Config, ranks: Ranks, shared: bool = False) -> "Update":
        """Return the update of a config, with a noise table; `shared`: one table for all loops of this program."""
        table = shared_table if shared else NoiseTable
        needed = sum(rank_bytes(config).values())
        return cls.of(config, table(config.noise_seed, config.noise.size, ranks, needed))

    def ask(self, state: State) -> Draw:
        """Return the draw of the next generation, the same on every rank."""
        generator = stream(self.seed, "draw", state.generation)
        return self.population.draw(generator, self.noise, state.mean.shape[1])

    def tell(self, state: State, draw: Draw, outcomes: Outcomes, ranks: Ranks) -> tuple[State, Arrays]:
        """Return the state after a generation, the norm of its gradient, and the values of the user's own objectives.

        It is called on all ranks together.
        """
        weights, memory = self.objective.weights(outcomes, state.memory, ranks)
        own = [part.value(outcomes, {}, ranks) for _, part in self.objective.members if part.label]
        following, norm = self.move(replace(state, memory=memory), draw, weights, outcomes.observations, ranks)
        return following, {"gradient_norm": norm, "objective_value": np.array(own)}

    def move(
        self, state: State, draw: Draw, weights: Floats, observations: Floats, ranks: Ranks
    ) -> tuple[State, NDArray[Any]]:
        """Return the state after a step along the individuals, weighted with `weights` [N]; and the gradient's norm.

        observations: the sums of the sampled rollouts, in index order
        """
        gradient = self.population.gradient(weights, draw, state.learned, self.noise, ranks)
        learned, moments = state.learned, state.moments
        if weights.any():  # otherwise the weight decay alone would make a step, which Adam scales to full size
            moved, moments = self.optimizer.step(learned, gradient, moments)
            learned = self.population.clip(moved)
        # Observation sums are added row by row, in index order: the sum must not depend on the ranks.
        total = sum(observations, start=state.observations)
        following = State(state.generation + 1, learned, moments, total, state.memory)
        return following, np.sqrt(sum(np.square(array).sum() for array in gradient.values()))

    def gradients(
        self, state: State, draw: Draw, outcomes: Outcomes, groups: Sequence[NDArray[np.int64]], ranks: Ranks
    ) -> list[Arrays]:
        """Return the gradient of each group of individuals, whose weights are those among all outcomes."""
        weights, _ = self.objective.weights(outcomes, state.memory, ranks)
        population: Any = self.population
        return [
            msgspec.structs.replace(population, size=len(group)).gradient(
                weights[group], draw.at(group), state.learned, self.noise, ranks
            )
            for group in groups
        ]
