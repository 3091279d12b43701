"""The outer step over the tasks of all ranks, by TRPO (Schulman et al. 2015, arXiv:1502.05477).

    direction   solve (H + damping) s = g by conjugate gradients
    length      s sqrt(2 kl_bound / (s (H + damping) s)), shortened until the objective rises and KL <= kl_bound

g: the gradient of the objective; H: the Hessian of the KL. The ranks gather only gradients and Hessian-vector products,
and every rank adds them in the order of the tasks.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ees_mpi.arrays import Floats, Singles
from ees_mpi.config import Config
from ees_mpi.errors import TaskError, collective
from ees_mpi.maml.learning import LearningTasks
from ees_mpi.maml.rollouts import Pairs, maml_of
from ees_mpi.ranks import Ranks

GATHERED = 8192  # parameters that are gathered at a time, so that no rank holds the gradients of all tasks
KEPT_FLOATS = 10  # numbers per step and unit of the network that a task needs at once
KEPT = 1 << 30  # bytes of layers that a CPU rank keeps between Hessian products; this saves a third of their time
SIDE_BY_SIDE = 16 << 30  # bytes of the tasks that a GPU computes side by side; 40 at the paper's scale have 8 GiB
ITERATIONS, DAMPING = 10, 1e-5  # of the conjugate gradients; the latter is added to the diagonal of the Fisher matrix
SHORTENED, RATIO = 15, 0.8  # how often a step may be shortened, and by which factor
TINY = 1e-10  # relative squared residual at which a system counts as solved


@dataclass(frozen=True)
class Step:
    """The result of a step."""

    theta: Singles
    objective: float  # its gain
    divergence: float  # the KL
    shortened: int  # how often the step was shortened; -1: there was no step, theta is the old one


def outer_step(
    config: Config, theta: Singles, learning: Mapping[int, LearningTasks], count: int, ranks: Ranks
) -> tuple[Step, Floats]:
    """Take the outer step from theta, the same on every rank; return it and the gradient.

    learning: this rank's tasks or groups of tasks, by the index of their first one; count: tasks of all ranks
    """
    mean = Mean(ranks, list(learning), count)
    gradient = mean.of([tasks.gradient() for tasks in learning.values()], len(theta))
    if not np.isfinite(gradient).all():
        raise collective(TaskError("the gradient is not finite; the last committed generation is saved"))

    def hessian_product(vector: Floats) -> Floats:
        return mean.of([tasks.hessian_product(vector) for tasks in learning.values()], len(theta))

    def value(candidate: Singles) -> tuple[float, float]:
        objective, divergence = mean.of([tasks.at(candidate) for tasks in learning.values()], 2)
        return float(objective), float(divergence)

    return trpo_step(theta, gradient, hessian_product, value, maml_of(config).kl_bound), gradient


def learning_tasks(
    config: Config, theta: Singles, groups: Iterable[Pairs], valid: NDArray[np.bool_]
) -> dict[int, LearningTasks]:
    """Return the valid tasks of some groups, to learn from at theta, by the index of the first of each group."""
    settings, point = maml_of(config), torch.tensor(theta)
    learning: dict[int, LearningTasks] = {}
    for group in groups:
        chosen = np.flatnonzero(valid[group.index])
        for part in parts(config, len(chosen)):
            some = group[chosen[part]]
            keep = len(chosen) > 1 or (len(learning) + 1) * task_bytes(config) <= KEPT
            steps = [rollouts.steps(settings.discount) for rollouts in (some.before, some.after)]
            learning[some.index[0]] = LearningTasks(
                config.task.layers, settings.adaptation_lr, point, steps[0], steps[1], keep
            )
    return learning


def parts(config: Config, count: int) -> list[slice]:
    """Return which of `count` tasks a GPU computes side by side."""
    size = max(1, SIDE_BY_SIDE // task_bytes(config))
    return [slice(first, min(first + size, count)) for first in range(0, count, size)]


def task_bytes(config: Config) -> int:
    """Return the bytes that the derivatives of one task need."""
    settings = maml_of(config)
    return settings.rollouts * settings.steps(config.task) * sum(config.task.layers) * KEPT_FLOATS * 4


class Mean:
    """Computes means over the tasks of all ranks, summed in the order of the tasks."""

    def __init__(self, ranks: Ranks, mine: list[int], tasks: int):
        self._ranks, self._tasks = ranks, tasks
        self._counts = ranks.each(len(mine))
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


def conjugate_gradients(product: Callable[[Floats], Floats], target: Floats, iterations: int) -> Floats:
    """Return x with A x = target for a positive definite A, given as its product with a vector."""
    x = np.zeros_like(target)
    residual = target.copy()
    direction = residual.copy()
    size = first = float(residual @ residual)
    for _ in range(iterations):
        if size <= TINY * first:
            break
        turned = product(direction)
        curvature = float(direction @ turned)
        if curvature <= 0.0:  # possible after rounding, near the solution
            break
        length = size / curvature
        x += length * direction
        residual -= length * turned
        following = float(residual @ residual)
        direction = residual + (following / size) * direction
        size = following
    return x


def trpo_step(
    theta: Singles,
    gradient: Floats,
    hessian_product: Callable[[Floats], Floats],
    at: Callable[[Singles], tuple[float, float]],
    kl_bound: float,
) -> Step:
    """Take one step from theta; `at`: returns objective and KL at another theta."""

    def damped(vector: Floats) -> Floats:
        return hessian_product(vector) + DAMPING * vector

    before, _ = at(theta)
    stay = Step(theta, 0.0, 0.0, -1)
    direction = conjugate_gradients(damped, gradient, ITERATIONS)
    curvature = float(direction @ damped(direction))
    if not curvature > 0.0:
        return stay
    whole = direction * np.sqrt(2 * kl_bound / curvature)
    for shortened in range(SHORTENED):
        candidate = (theta + RATIO**shortened * whole).astype(theta.dtype)
        objective, divergence = at(candidate)
        if objective > before and divergence <= kl_bound:
            return Step(candidate, objective - before, divergence, shortened)
    return stay
