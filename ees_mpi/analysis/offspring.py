"""The offspring of one generation or of a sample: reading them, and choosing those that differ most."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.outcomes import Floats, Outcomes
from ees_mpi.store.reader import Run
from ees_mpi.tasks.locomotion import along


@dataclass(frozen=True)
class Cloud:
    """What the offspring of one generation did; n of them are valid."""

    outcomes: Outcomes
    place: Floats  # [n, B]: where each ended
    parent: NDArray[np.int32]  # [n]: which mean each perturbs
    components: int

    @property
    def distance(self) -> Floats:
        """Their distances [n] from the origin."""
        return np.asarray(np.sqrt(np.square(self.place).sum(axis=1)))


def cloud(run: Run, generation: int | None = None) -> Cloud:
    """Read one generation of a run, the last where None; only that one is read."""
    g = which(run, generation)
    valid = _valid(run, g)
    if not valid.any():
        raise RunFileError(f"{run.path}: generation {g} has no finite behavior")
    behavior = np.asarray(run["behavior"][g], np.float64)
    outcomes = Outcomes(behavior, run["fitness"][g], run["length"][g].astype(np.int64), valid, np.zeros((0, 1)))
    place = behavior[valid][:, -axes(run) :]
    return Cloud(outcomes, place, run["parent"][g][valid], run["mean"].shape[1])


def has_cloud(run: Run, generation: int) -> bool:
    """Tell whether any offspring of a generation is valid; where none is, curves and tables have a gap."""
    return bool(_valid(run, generation).any())


def _valid(run: Run, generation: int) -> NDArray[np.bool_]:
    found = np.asarray(run["valid"][generation], bool) & np.isfinite(run["behavior"][generation]).all(axis=1)
    return np.asarray(found)


def which(run: Run, generation: int | None) -> int:
    """Return the number of a generation that is there, or say that it is not."""
    check_offspring(run)
    if run.generations == 0:
        raise RunFileError(f"{run.path} has no committed generation yet")
    if generation is None:
        return run.generations - 1
    if not 0 <= generation < run.generations:
        raise ConfigError(f"generation {generation}: {run.path} has 0 to {run.generations - 1}")
    return generation


def has_offspring(run: Run) -> bool:
    """Return whether the rows of a run are individuals that can be rebuilt; MAML's are tasks."""
    return run.config.population.rows == "individual"


def check_offspring(run: Run) -> None:
    """Raise a RunFileError if the rows of a run are not offspring."""
    if not has_offspring(run):
        raise RunFileError(
            f"{run.path} was trained by MAML, so its rows are no offspring; "
            f"make some first: ees-mpi sample {run.path} --count 1000"
        )


def check_one_task(runs: Sequence[Run]) -> None:
    """Refuse to show robots together that are not alike."""
    tasks = {(run.config.task_name, run.config.task.label): run for run in runs}
    if len(tasks) > 1:
        one, other, *_ = tasks.values()
        raise RunFileError(f"{one.path} and {other.path} are of different tasks; draw each by itself")


def check_runs(runs: Sequence[Run]) -> None:
    """Refuse samples where generations are shown: theirs are not of a training."""
    for run in runs:
        if run.attributes.get("kind") == "sample":
            raise RunFileError(f"{run.path} is a sample, which has no training to show over generations; give its run")


def axes(run: Run) -> int:
    """Return how many of the last behaviour numbers say where one ended: all, but for a robot's way points."""
    return run.config.task.axes or int(run["behavior"].shape[2])


def source(run: Run, generation: int) -> tuple[str, int]:
    """Return the run and generation that a row is of: of a sample, those that it was drawn of."""
    if run.attributes.get("kind") != "sample":
        return run.run_id, generation
    note = json.loads(str(run.attributes.get("started_from") or "{}"))
    return str(note.get("run_id", run.run_id)), int(note.get("generation", generation))


def walks(run: Run) -> bool:
    """Return whether the behaviours of a run are final positions."""
    return run.config.task.axes > 0


def places(run: Run, generation: int) -> Floats:
    """Return the final positions of a generation [N, axes], or the behaviours [N, B] of other tasks; NaN: invalid."""
    behavior: Floats = np.array(run["behavior"][generation], np.float64)
    behavior[~np.asarray(run["valid"][generation], bool)] = np.nan
    return behavior[:, -run.config.task.axes :]  # the last of several noted steps; all numbers if there are no axes


def farthest(behavior: Floats, count: int) -> list[int]:
    """Return the individuals farthest from the origin, farthest first."""
    distance = np.square(behavior).sum(axis=1)
    return [int(i) for i in np.argsort(-distance, kind="stable") if np.isfinite(distance[i])][:count]


def extremes(behavior: Floats, count: int) -> list[int]:
    """Return individuals that differ: leftmost and rightmost, the farthest all around, or far from each other."""
    valid = np.flatnonzero(np.isfinite(behavior).all(axis=1))
    rows = behavior[valid]
    count = min(count, len(valid))
    if not count:
        return []
    pick = {1: _ends, 2: _around}.get(behavior.shape[1], _apart)
    return [int(valid[i]) for i in pick(rows, count)]


def _ends(rows: Floats, count: int) -> list[int]:
    order: NDArray[np.intp] = np.argsort(rows[:, 0], kind="stable")
    right = count // 2
    left = count - right
    return [int(i) for i in (*order[:left], *order[len(order) - right :])]


def _around(rows: Floats, count: int) -> list[int]:
    """Go round, taking in each direction the one that got farthest there and is not taken yet."""
    taken: list[int] = []
    for number in range(count):
        angle = 360.0 * number / count
        reached = np.array([along(angle, x, y) for x, y in rows.tolist()])
        reached[taken] = -np.inf
        taken.append(int(np.argmax(reached)))
    return taken


def _apart(rows: Floats, count: int) -> list[int]:
    """Start far from the median, and always add the one farthest from all that are taken."""
    distance = np.square(rows - np.median(rows, axis=0)).sum(axis=1)
    taken = [int(np.argmax(distance))]
    nearest = np.square(rows - rows[taken[0]]).sum(axis=1)
    while len(taken) < count:
        nearest[taken] = -1.0
        taken.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, np.square(rows - rows[taken[-1]]).sum(axis=1))
    return taken
