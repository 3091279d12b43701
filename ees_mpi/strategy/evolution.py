"""An evolution strategy: `ask` says what a generation evaluates, `tell` computes the next state from what was found.

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

from ees_mpi.arrays import Arrays, Floats
from ees_mpi.generation import OWN, Draw, Found, Outcomes, State, Work
from ees_mpi.noise import Noise, stream
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.objectives.base import Objective
from ees_mpi.strategy.optimizers.base import Optimizer
from ees_mpi.strategy.populations.base import Population


@dataclass(frozen=True)
class Starts:
    """The rule by which rollouts start: the seeds of a generation depend on it and on the generation only."""

    seed: int  # of the task's own start
    count: int  # K, of each individual
    rule: str  # "fixed": always the same; "common": of a generation; "own": of each individual
    in_pairs: bool  # whether two neighbours share their own starts, so that they differ by the mutation only

    def seeds(self, generation: int, size: int) -> NDArray[np.int64]:
        """Return the seeds [size + 1, K] of all rollouts of a generation; the last row is for the mean."""
        if self.rule == "own":
            drawn = self._draw("own starts", generation, size + 1)
            return drawn[np.arange(size + 1) // (2 if self.in_pairs else 1)]
        if self.rule == "common":
            row = self._draw("common starts", generation, 1)
        else:
            row = self._draw("fixed starts", 0, 1)
            row[0, 0] = self.seed
        return np.repeat(row, size + 1, axis=0)

    def _draw(self, purpose: str, counter: int, rows: int) -> NDArray[np.int64]:
        return stream(self.seed, purpose, counter).integers(2**31, size=(rows, self.count))


@dataclass(frozen=True)
class Evolution:
    """The parts of an evolution strategy that turn one state into the next."""

    population: Population
    objective: Objective
    optimizer: Optimizer
    noise: Noise
    seed: int
    starts: Starts
    observed_share: float  # of the individuals, whose observations are counted
    mean_every: int  # generations between two evaluations of the unperturbed mean; 0: never
    settings: Any  # `metrics.Settings`, of the logged metrics

    def ask(self, state: State) -> Work:
        """Draw the next generation."""
        generator = stream(self.seed, "draw", state.generation)
        return self.work(state, self.population.draw(generator, self.noise, state.mean.shape[1]))

    def work(self, state: State, draw: Draw) -> Work:
        """Return the work of a generation whose draw is known, such as a stored one."""
        generation, size = state.generation, len(draw.offset)
        if self.population.decays and draw.std is None:
            draw = replace(draw, std=self.population.std_at(generation))
        with_mean = self.mean_every > 0 and generation % self.mean_every == 0
        seeds = self.starts.seeds(generation, size)[: size + with_mean]
        observe = np.zeros(len(seeds), np.bool_)  # never the observations of the mean
        observe[:size] = stream(self.seed, "observe", generation).random(size) < self.observed_share
        return Work(state, state.statistics, draw, seeds, observe)

    def tell(self, work: Work, found: Found, ranks: Ranks) -> tuple[State, Arrays]:
        """Return the next state, the norm of the gradient, and the values of the user's own objectives.

        It is called on all ranks together.
        """
        outcomes, memory = found.outcomes, work.state.memory
        weights = self.objective.weights(outcomes, memory, ranks)
        own = [part.value(outcomes, ranks) for _, part in self.objective.members if part.label]
        remembered = self.objective.remember(outcomes, memory)
        following, logged = self.move(work, weights, outcomes.observations, remembered, ranks)
        return following, {**logged, OWN: np.array(own)}

    def move(
        self, work: Work, weights: Floats, observations: Floats, memory: Arrays, ranks: Ranks
    ) -> tuple[State, Arrays]:
        """Return the state after a step along the individuals, weighted with `weights` [N]; and the gradient's norm.

        observations: the sums of the sampled rollouts, in index order
        """
        state = work.state
        gradient = self.population.gradient(weights, work.draw, state.learned, self.noise, ranks)
        norm = np.sqrt(sum(np.square(array).sum() for array in gradient.values()))  # an optimizer may change them
        learned, moments = state.learned, state.moments
        if weights.any():  # otherwise the weight decay alone would make a step, which Adam scales to full size
            moved, moments = self.optimizer.step(learned, gradient, moments)
            learned = self.population.clip(moved)
        # Observation sums are added row by row, in index order: the sum must not depend on the ranks.
        total = sum(observations, start=state.observations)
        return State(state.generation + 1, learned, moments, total, memory), {"gradient_norm": norm}

    def gradients(
        self, state: State, draw: Draw, outcomes: Outcomes, groups: Sequence[NDArray[np.int64]], ranks: Ranks
    ) -> list[Arrays]:
        """Return the gradient of each group of individuals, whose weights are those among all outcomes."""
        weights = self.objective.weights(outcomes, state.memory, ranks)
        population: Any = self.population
        return [
            msgspec.structs.replace(population, size=len(group)).gradient(
                weights[group], draw.at(group), state.learned, self.noise, ranks
            )
            for group in groups
        ]
