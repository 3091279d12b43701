"""The offspring of one generation or of a sample: reads them, checks them, chooses those that differ most."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi import metrics
from ees_mpi.commands.arguments import check_committed
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.metrics import UNKNOWN, Sample
from ees_mpi.outcomes import Floats, Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.registry import unknown
from ees_mpi.run.arrays import BY_START
from ees_mpi.run.file import Run
from ees_mpi.spread import Scale
from ees_mpi.tasks.gymnasium.behaviors import chosen_of, parts_of
from ees_mpi.tasks.locomotion import along
from ees_mpi.terminal import plain


def sample_of(run: Run, generation: int | None = None, scale: Scale = UNKNOWN) -> Sample:
    """Read the valid offspring of one generation, by default the last; only that generation is read."""
    g = check_generation(run, generation)
    behavior, valid = _behavior(run, g)
    if not valid.any():
        raise RunFileError(f"{run.path}: generation {g} has no finite behaviour")
    by_start = run[BY_START][g] if BY_START in run.names else None
    facts = behavior, run["fitness"][g], run["length"][g].astype(np.int64), valid, np.zeros((0, 1))
    settings = run.metric_settings
    outcomes = Outcomes(*facts, by_start, settings.common_starts)
    return Sample(outcomes, settings, Ranks(), run["parent"][g][valid], scale)


def number_of(run: Run, name: str, generation: int, scale: Scale) -> float:
    """Return a metric of a generation: read if the file has it, else computed; raise an error if the run has none."""
    settings = run.metric_settings
    array = metrics.OWN if name in settings.own_names else name
    if array in run.names and name in (*settings.own_names, *metrics.in_file(settings)):
        return float(metrics.column({array: run[array][generation]}, name, settings))
    if name not in metrics.METRICS:
        raise ConfigError(f"--metric: {unknown(name, [*settings.own_names, *metrics.METRICS])}")
    metric = metrics.METRICS[name]
    if metric.compute is None or metric.lacks(settings):
        raise RunFileError(f"{run.path}: {name} needs {metric.lacks(settings)}")
    return float(metric.compute(sample_of(run, generation, scale)))


def measured(run: Run, sample: Sample, generation: int) -> dict[str, float]:
    """Return all metrics of a generation, by name; those that the file has are read."""
    names = [name for name in (*metrics.in_file(sample.settings), metrics.OWN) if name in run.names]
    return metrics.measured(sample, {name: run[name][generation] for name in names})


def positions(run: Run, generation: int) -> Floats:
    """Return the final positions of a generation [N, axes], or the behaviors [N, B] of other tasks; NaN if invalid."""
    behavior, valid = _behavior(run, generation)
    # A behavior may have positions of earlier steps in front.
    return np.where(valid[:, None], behavior, np.nan)[:, -position_dim(run) :]


def position_dim(run: Run) -> int:
    """Return the length of a place, or of the behavior of a task without places."""
    return run.metric_settings.axes


def has_positions(run: Run) -> bool:
    """Return whether the behaviors of a run are final positions of robots, which began at the origin."""
    return has_places(run) and run.config.task.begins_at_origin


def has_places(run: Run) -> bool:
    """Return whether the behaviors of a run are places: final positions, or one or two numbers of another task."""
    return run.metric_settings.places > 0


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
