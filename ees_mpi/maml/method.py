"""MAML through the loop of all methods: an individual of its work is a task, to walk in a direction.

`tell` learns from the rollouts of this rank's tasks, which its evaluator has kept: `Found.local`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ees_mpi.arrays import Arrays, Floats
from ees_mpi.config import Config
from ees_mpi.generation import OWN, Draw, Found, State, Work
from ees_mpi.maml.outer import learning_tasks, outer_step
from ees_mpi.maml.rollouts import Pairs, theta_of
from ees_mpi.metrics import Settings
from ees_mpi.noise import stream
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.populations.maml_tasks import MamlTasks


@dataclass(frozen=True)
class Maml:
    """MAML with an outer step by TRPO."""

    config: Config

    @property
    def settings(self) -> Settings:
        return self.config.metric_settings()

    def ask(self, state: State) -> Work:
        """Draw the directions of the tasks."""
        tasks = self.config.population
        if not isinstance(tasks, MamlTasks):
            raise TypeError("expected a population of tasks")
        return self.work(state, tasks.directions(stream(self.config.run.seed, "draw", state.generation)))

    def work(self, state: State, draw: Draw) -> Work:
        """Return the work of a generation whose directions are known."""
        size, every = len(draw.offset), self.config.run.evaluate_mean_every
        with_mean = every > 0 and state.generation % every == 0
        seeds = np.full((size + with_mean, 1), self.config.task.start_seed(self.config.run.seed))
        nobody = np.zeros(len(seeds), np.bool_)  # a task chooses which of its rollouts are counted
        return Work(state, state.statistics, draw, seeds, nobody)

    def tell(self, work: Work, found: Found, ranks: Ranks) -> tuple[State, Arrays]:
        """Take the outer step; return the next state, and arrays for the record."""
        state, outcomes, pairs = work.state, found.outcomes, found.local
        learning = learning_tasks(self.config, theta_of(state), pairs, outcomes.valid)
        step, gradient = outer_step(self.config, theta_of(state), learning, outcomes.size, ranks)
        split = state.mean.shape[1]
        following = State(
            generation=state.generation + 1,
            learned={"mean": step.theta[None, :split].copy(), "log_std": step.theta[split:].copy()},
            moments={},
            observations=sum(outcomes.observations, start=state.observations),
        )
        before = np.where(outcomes.valid, fitness_before(pairs, work.size, ranks), np.nan)
        return following, {
            "fitness_before": before,
            "fitness_gain": (outcomes.fitness - before)[outcomes.valid].mean(),
            "gradient_norm": np.sqrt(np.square(gradient).sum()),
            "divergence": np.array(step.divergence),
            "surrogate_gain": np.array(step.objective),
            "shortened": np.array(float(step.shortened)),
            OWN: np.empty(0),
        }


def fitness_before(pairs: Sequence[Pairs], size: int, ranks: Ranks) -> Floats:
    """Return the fitness [N] on each task before its adaptation, on every rank."""
    index = np.array([number for pair in pairs for number in pair.index], np.int64)
    totals = np.array([total for pair in pairs for total in pair.before.total.tolist()], np.float64)
    return np.asarray(ranks.allgather_by_index(index, totals, size))
