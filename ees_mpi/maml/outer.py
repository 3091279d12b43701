"""The outer step of an iteration: the TRPO step with the means over the tasks of all ranks.

The ranks gather only gradients and Hessian-vector products, and every rank adds them in the order of the tasks.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ees_mpi.config import Config
from ees_mpi.errors import TaskError, collective
from ees_mpi.generation.state import State
from ees_mpi.maml import trpo
from ees_mpi.maml.learning import Learner, LearningTask, Steps, theta_of
from ees_mpi.maml.network import Tensor
from ees_mpi.maml.products import LearningTasks
from ees_mpi.maml.rollouts import Pair
from ees_mpi.maml.settings import maml_of
from ees_mpi.maml.tracks import Tracks
from ees_mpi.outcomes import Floats, Singles
from ees_mpi.ranks import Ranks

GATHERED = 8192  # parameters that are gathered at a time, so that no rank holds the gradients of all tasks
GRAPH_FLOATS = 10  # numbers that torch keeps per step and unit of the network, for both graphs of a task; measured
KEPT = 1 << 30  # bytes of graphs that a rank keeps; this saves a third or more of the time of its Hessian products
SIDE_BY_SIDE = 16 << 30  # bytes of the tasks that a GPU computes side by side; 40 at the paper's scale have 8 GiB


def outer_step(
    config: Config, state: State, learning: Mapping[int, LearningTask], count: int, ranks: Ranks
) -> tuple[trpo.Step, Floats]:
    """Take the outer step, the same on every rank; return it and the gradient.

    learning: this rank's tasks by index, or groups of tasks by the index of their first one; count: tasks of all ranks
    """
    theta = np.concatenate([state.mean[0], state.moments["log_std"]])
    mean = Mean(ranks, list(learning), count)
    gradient = mean.of([task.gradient() for task in learning.values()], len(theta))
    if not np.isfinite(gradient).all():
        raise collective(TaskError("the gradient is not finite; the last committed generation is saved"))

    def hessian_product(vector: Floats) -> Floats:
        return mean.of([task.hessian_product(vector) for task in learning.values()], len(theta))

    def value(candidate: Singles) -> tuple[float, float]:
        objective, divergence = mean.of([task.at(candidate) for task in learning.values()], 2)
        return float(objective), float(divergence)

    return trpo.step(theta, gradient, hessian_product, value, maml_of(config)), gradient


def one_by_one(config: Config, state: State, pairs: Mapping[int, Pair]) -> dict[int, LearningTask]:
    """Return tasks that a CPU computes one after the other."""
    settings, graph = maml_of(config), graph_bytes(config)
    learner, theta = Learner(config.task.layers, settings.adaptation_lr), theta_of_state(state)
    tasks: dict[int, LearningTask] = {}
    for index in sorted(pairs):
        before, after = (Steps.of(batch, settings.discount) for batch in (pairs[index].before, pairs[index].after))
        tasks[index] = LearningTask(learner, theta, before, after, keep=(len(tasks) + 1) * graph <= KEPT)
    return tasks


def side_by_side(
    config: Config, state: State, index: Sequence[int], before: Tracks, after: Tracks
) -> dict[int, LearningTask]:
    """Return groups of tasks that a GPU computes side by side; `index`: of the tasks whose rollouts are given."""
    settings, theta = maml_of(config), theta_of_state(state)
    learner = Learner(config.task.layers, settings.adaptation_lr, several=True)
    groups: dict[int, LearningTask] = {}
    for part in parts(config, len(index)):
        steps = [tracks[part].steps(settings.discount) for tracks in (before, after)]
        groups[index[part.start]] = LearningTasks(learner, theta, steps[0], steps[1])
    return groups


def parts(config: Config, count: int) -> list[slice]:
    """Return which of `count` tasks a GPU computes side by side."""
    size = max(1, SIDE_BY_SIDE // graph_bytes(config))
    return [slice(first, min(first + size, count)) for first in range(0, count, size)]


def theta_of_state(state: State) -> Tensor:
    """Return the parameters of the policy of a state as one tensor."""
    return theta_of(state.mean[0], state.moments["log_std"])


class Mean:
    """Computes means over the tasks of all ranks, summed in the order of the tasks."""

    def __init__(self, ranks: Ranks, mine: list[int], tasks: int):
        self._ranks, self._tasks = ranks, tasks
        self._counts = ranks.allgather(np.array([len(mine)]), counts=[1] * ranks.size).tolist()
        self._order = np.argsort(ranks.allgather(np.array(mine, np.int64), self._counts))

    def of(self, vectors: list[Floats], size: int) -> Floats:
        """Return the mean [size] on every rank; `vectors`: of this rank's tasks or groups, in their order."""
        rows = np.array(vectors, np.float64).reshape(len(vectors), size)
        total = np.zeros(size)
        for low in range(0, size, GATHERED):
            part = slice(low, low + GATHERED)
            for row in self._ranks.allgather(rows[:, part], self._counts)[self._order]:
                total[part] += row
        return total / self._tasks


def graph_bytes(config: Config) -> int:
    """Return the bytes of the graphs that torch keeps for one task."""
    settings = maml_of(config)
    return settings.rollouts * settings.steps(config.task) * sum(config.task.layers) * GRAPH_FLOATS * 4
