"""The offspring of one generation or of a sample: reads them, checks them, chooses those that differ most."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.commands.arguments import check_committed
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.outcomes import Floats, Outcomes
from ees_mpi.run.arrays import BY_START
from ees_mpi.run.file import Run
from ees_mpi.tasks.gymnasium.behaviors import chosen_of, parts_of
from ees_mpi.tasks.locomotion import along
from ees_mpi.terminal import plain


@dataclass(frozen=True)
class Offspring:
    """The n valid offspring of one generation."""

    outcomes: Outcomes  # of all N, including the invalid ones
    position: Floats  # [n, B]: final positions of robots; behaviors of other tasks
    parent: NDArray[np.int32]  # [n]: the index of the mean that each one perturbs
    components: int
    entropy: float = math.nan  # that the file has, with the kernel of its objective

    @property
    def distance(self) -> Floats:
        return np.asarray(np.linalg.norm(self.position, axis=1))  # [n], from the origin

    @property
    def crossed(self) -> Floats:
        """The final positions [n, K, B] from K starts that all offspring have in common; K = 1 if there are none."""
        found = self.outcomes
        if found.by_start is None or not found.common_starts:
            return self.position[:, None]
        return found.by_start[found.valid][..., -self.position.shape[1] :]

    @property
    def rollouts(self) -> Floats:
        """The final positions [n K, B] of single rollouts; `position` has the means over K starts."""
        found, numbers = self.outcomes, self.position.shape[1]
        if found.by_start is None:
            return self.position
        return found.by_start[found.valid][..., -numbers:].reshape(-1, numbers)

    @property
    def alone(self) -> "Offspring":
        """Single rollouts in place of means over several starts."""
        places = self.rollouts
        return replace(self, position=places, parent=np.repeat(self.parent, len(places) // len(self.position)))

    def at(self, index: NDArray[np.int64]) -> "Offspring":
        """Return some of them."""
        outcomes = self.outcomes.at(np.flatnonzero(self.outcomes.valid)[index])
        return replace(self, outcomes=outcomes, position=self.position[index], parent=self.parent[index])


def read_offspring(run: Run, generation: int | None = None) -> Offspring:
    """Read the valid offspring of one generation, by default the last; only that generation is read."""
    g = check_generation(run, generation)
    behavior, valid = _behavior(run, g)
    if not valid.any():
        raise RunFileError(f"{run.path}: generation {g} has no finite behaviour")
    by_start = run[BY_START][g] if BY_START in run.names else None
    facts = behavior, run["fitness"][g], run["length"][g].astype(np.int64), valid, np.zeros((0, 1))
    outcomes = Outcomes(*facts, by_start, run.config.task.common_starts)
    position = behavior[valid, -position_dim(run) :]
    return Offspring(outcomes, position, run["parent"][g][valid], run["mean"].shape[1], float(run["entropy"][g]))


def positions(run: Run, generation: int) -> Floats:
    """Return the final positions of a generation [N, axes], or the behaviors [N, B] of other tasks; NaN if invalid."""
    behavior, valid = _behavior(run, generation)
    # A behavior may have positions of earlier steps in front.
    return np.where(valid[:, None], behavior, np.nan)[:, -position_dim(run) :]


def position_dim(run: Run) -> int:
    """Return the length of a place, or of the behavior of a task without places."""
    return _axes(run) or int(run["behavior"].shape[2])


def has_positions(run: Run) -> bool:
    """Return whether the behaviors of a run are final positions of robots, which began at the origin."""
    return has_places(run) and run.config.task.begins_at_origin


def has_places(run: Run) -> bool:
    """Return whether the behaviors of a run are places: final positions, or one or two numbers of another task."""
    return _axes(run) > 0


def _axes(run: Run) -> int:
    return run.config.task.axes_of(int(run["behavior"].shape[2]))


def axis_names(run: Run) -> list[str]:
    """Return the names of the numbers of `positions`: of robots final x and y, of other tasks their behavior."""
    task: Any = run.config.task
    count = position_dim(run)
    if has_positions(run):
        return [f"final {axis}" for axis in "xyz"[:count]]
    behavior = str(getattr(task, "behavior", "behaviour"))
    kind, inside = parts_of(behavior)
    name = kind.rpartition(":")[2].replace("_", " ")
    if kind in ("final_info", "mean_info"):
        name = name.replace("info", plain(inside))
    record = int(run["behavior"].shape[2]) // len(getattr(task, "marks", (0,)))  # a place is its last numbers
    chosen = chosen_of(inside) if kind == "final_observation" else []
    numbers = chosen if count <= len(chosen) else range(max(record, count))
    return [name] if len(numbers) == 1 and not chosen else [f"{name}[{number}]" for number in numbers[-count:]]


def _behavior(run: Run, generation: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the behaviors [N, B] of a generation, and which of them [N] are valid."""
    behavior: Floats = run["behavior"][generation]
    return behavior, run["valid"][generation].astype(bool) & np.isfinite(behavior).all(axis=1)


def valid_generations(run: Run) -> list[int]:
    """Return the generations that have valid rollouts, because others are gaps; raise a RunFileError if none has."""
    generations = [g for g in range(check_generation(run, None) + 1) if _behavior(run, g)[1].any()]
    if not generations:
        raise RunFileError(f"{run.path} has no finite behaviour in any generation")
    return generations


def check_generation(run: Run, generation: int | None) -> int:
    """Return the number of a generation of offspring, by default the last; raise an error if the run has none."""
    if not run.config.population.has_individuals:
        raise RunFileError(
            f"{run.path} was trained by MAML, so its rows are tasks, not mutations; "
            f"sample some first: ees-mpi sample {run.path} --count 1000"
        )
    check_committed(run)
    if generation is not None and not 0 <= generation < run.generations:
        raise ConfigError(f"generation {generation}: {run.path} has 0 to {run.generations - 1}")
    return run.generations - 1 if generation is None else generation


def task_of(run: Run) -> tuple[str, str, int]:
    """Return what runs must have in common so that their places can be compared."""
    return run.config.task_name, run.config.task.label, position_dim(run)


def check_one_task(runs: Sequence[Run]) -> None:
    """Raise a RunFileError if runs have different tasks."""
    tasks = {task_of(run): run for run in runs}
    if len(tasks) > 1:
        one, other, *_ = tasks.values()
        raise RunFileError(f"{one.path} and {other.path} are of different tasks; show each task by itself")


def extremes(behavior: Floats, count: int) -> list[int]:
    """Return individuals that differ: leftmost and rightmost, the farthest all around, or far from each other."""
    valid = np.flatnonzero(np.isfinite(behavior).all(axis=1))
    count = min(count, len(valid))
    if not count:
        return []
    pick = {1: _leftmost_and_rightmost, 2: _farthest_all_around}.get(behavior.shape[1], _far_apart)
    return [int(valid[i]) for i in pick(behavior[valid], count)]


def _leftmost_and_rightmost(rows: Floats, count: int) -> list[int]:
    order: list[int] = np.argsort(rows[:, 0], kind="stable").tolist()
    return order[: -(-count // 2)] + order[len(order) - count // 2 :]


def _farthest_all_around(rows: Floats, count: int) -> list[int]:
    """Choose, for each of `count` directions, the one that came farthest and is not chosen yet."""
    chosen: list[int] = []
    for number in range(count):
        reached = np.array([along(360.0 * number / count, x, y) for x, y in rows.tolist()])
        reached[chosen] = -np.inf
        chosen.append(int(np.argmax(reached)))
    return chosen


def _far_apart(rows: Floats, count: int) -> list[int]:
    """Choose the one farthest from the median, then always the one farthest from all that are chosen."""
    chosen = [int(np.argmax(np.square(rows - np.median(rows, axis=0)).sum(axis=1)))]
    nearest = np.full(len(rows), np.inf)
    while len(chosen) < count:
        nearest = np.minimum(nearest, np.square(rows - rows[chosen[-1]]).sum(axis=1))
        nearest[chosen] = -1.0
        chosen.append(int(np.argmax(nearest)))
    return chosen
