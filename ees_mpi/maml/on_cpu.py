"""The tasks of a CPU rank: one rollout after the other and one task after the other, with the same bits always."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ees_mpi.config import Config
from ees_mpi.generation.results import evaluates_mean
from ees_mpi.generation.state import State
from ees_mpi.maml.learning import LearningTask, adapt
from ees_mpi.maml.outer import one_by_one
from ees_mpi.maml.rollouts import Gaussian, Pair, direction_of, draws, row_of, sample, sums_of
from ees_mpi.maml.settings import maml_of
from ees_mpi.outcomes import Draw, Outcome
from ees_mpi.ranks import Ranks


class CpuTasks:
    """A robot that is controlled step by step, and an evaluator of the mean."""

    device = "cpu"

    def __init__(self, config: Config, ranks: Ranks):
        self._config, self._ranks = config, ranks
        walker = config.task.walker(config.run.seed)
        if walker is None:
            raise TypeError("expected a task with a walker")
        self._walker, self._evaluator = walker, config.task.open(config.run.seed)

    def evaluate(self, state: State, drawn: Draw, mine: dict[int, Pair]) -> Outcome | None:
        """Add the rollouts of this rank's tasks to `mine`; return the outcome of the mean, if it is evaluated here."""
        size = self._config.population.size
        total = size + evaluates_mean(self._config, state.generation)
        center: Outcome | None = None
        policy = Gaussian.of_state(self._config.task.layers, state)
        for index in self._ranks.deal(range(total)):
            if index < size:
                mine[index] = self.rollouts(policy, state.generation, index, int(drawn.sign[index]))
            else:
                center = self._evaluator.evaluate(index, state.mean[0].copy(), *state.observation_mean_std(), False)
        return center

    def rollouts(self, policy: Gaussian, generation: int, index: int, sign: int) -> Pair:
        """Return the rollouts of one task before and after its adaptation; they depend on the arguments only."""
        noise, sampled = draws(self._config, generation, index)
        direction, dim = direction_of(self._config.task, sign), self._config.task.behavior_dim
        before = sample(self._walker, policy, noise[0], direction, sampled[0], dim)
        if not before.usable:
            return Pair(before, replace(before, length=np.zeros_like(before.length)))
        adapted = adapt(policy, before, maml_of(self._config))
        return Pair(before, sample(self._walker, adapted, noise[1], direction, sampled[1], dim))

    def rows(self, mine: Mapping[int, Pair]) -> list[list[float]]:
        """Return a row for each task: index, valid, length, fitness, behaviour, fitness before, observation sums."""
        return [[*row_of(index, pair), pair.before.total, *sums_of(pair)] for index, pair in mine.items()]

    def learning(self, state: State, mine: Mapping[int, Pair], valid: NDArray[np.bool_]) -> dict[int, LearningTask]:
        """Return this rank's valid tasks, to learn from."""
        return one_by_one(self._config, state, {index: pair for index, pair in mine.items() if valid[index]})

    def pairs(self, mine: Mapping[int, Pair]) -> Mapping[int, Pair]:
        """Return the rollouts of this rank's tasks, by index."""
        return mine

    def close(self) -> None:
        """Release the robots."""
        self._evaluator.close()
        self._walker.close()
