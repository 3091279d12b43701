"""Where the offspring of a generation or of a sample end: places, the names of their axes, those that differ most."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ees_mpi.analysis.labels import check_same_task, settings_of
from ees_mpi.arrays import Floats
from ees_mpi.run.file import Run
from ees_mpi.tasks.gymnasium.behaviors import chosen_of, parts_of
from ees_mpi.tasks.locomotion import along
from ees_mpi.terminal import plain


def positions(run: Run, generation: int) -> Floats:
    """Return the final positions of a generation [N, axes], or the behaviors [N, B] of other tasks; NaN if invalid."""
    behavior, valid = run["behavior"][generation], run["valid"][generation].astype(bool)
    # A behavior may have positions of earlier steps in front.
    return np.where(valid[:, None], behavior, np.nan)[:, -run.metric_settings.axes :]


def has_positions(run: Run) -> bool:
    """Return whether the behaviors of a run are final positions of robots, which began at the origin."""
    return run.metric_settings.places > 0 and run.config.task.begins_at_origin


def axis_names(run: Run) -> list[str]:
    """Return the names of the numbers of `positions`: of robots final x and y, of other tasks their behavior."""
    task: Any = run.config.task
    count = run.metric_settings.axes
    if has_positions(run):
        return [f"final {axis}" for axis in "xyz"[:count]]
    behavior = str(getattr(task, "behavior", "behaviour"))
    kind, inside = parts_of(behavior)
    name = kind.rpartition(":")[2].replace("_", " ")
    if kind in ("final_info", "mean_info"):
        name = name.replace("info", plain(inside))
    record = int(run["behavior"].shape[2]) // len(getattr(task, "marks", (0,)))  # a place is its last numbers
    if count > record:  # a place over several steps
        name, record, inside = "behaviour", int(run["behavior"].shape[2]), ""
    chosen = chosen_of(inside) if kind == "final_observation" else []
    numbers = chosen if count <= len(chosen) else range(record)
    return [name] if len(numbers) == 1 and not chosen else [f"{name}[{number}]" for number in numbers[-count:]]


def check_one_task(runs: Sequence[Run]) -> None:
    """Raise a RunFileError if runs have different tasks, so that their places cannot be shown together."""
    check_same_task([(run.path, settings_of(run)) for run in runs])


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
