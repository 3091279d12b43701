"""Choosing individuals of a run: by number, by how far they got in a direction, or the ones that differ most."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ees_mpi.adaptation import LEFT_RIGHT
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.outcomes import Floats
from ees_mpi.store.reader import Run
from ees_mpi.tasks.policy import along


@dataclass(frozen=True)
class Wish:
    """What the command line asks for; the one that got farthest where it asks for nothing."""

    individuals: Sequence[int] = ()
    best: Sequence[str] = ()  # left, right
    toward: Sequence[str] = ()  # degrees
    extremes: int = 0
    mean: bool = False
    generation: int | None = None

    @property
    def names_individuals(self) -> bool:
        """Whether it asks for any of the offspring."""
        return bool(self.individuals or self.best or self.toward or self.extremes)


@dataclass(frozen=True)
class Choice:
    """One policy of a run: an individual of a generation, or a mean from which it was drawn."""

    generation: int
    individual: int | None = None
    component: int = 0  # of a mean
    why: str = ""

    @property
    def name(self) -> str:
        """How it is called."""
        return f"individual {self.individual}" if self.individual is not None else f"mean {self.component}"

    @property
    def title(self) -> str:
        """What is said of it on the screen."""
        return f"generation {self.generation}, {self.name}" + (f", {self.why}" if self.why else "")


def choose(run: Run, wish: Wish) -> list[Choice]:
    """Return the individuals that are asked for, in the order of the options, none twice."""
    generation = _generation(run, wish)
    chosen: list[Choice] = []
    if wish.mean:
        chosen += [Choice(generation, None, k) for k in range(run.config.population.components)]
    if wish.names_individuals or not wish.mean:
        chosen += _individuals(run, wish, generation)
    first: dict[tuple[int | None, int], Choice] = {}
    for choice in chosen:
        first.setdefault((choice.individual, choice.component), choice)
    return list(first.values())


def has_offspring(run: Run) -> bool:
    """Tell whether a run's individuals are perturbed parameters that can be rebuilt: MAML's are tasks."""
    return not run.config.learns_tasks


def _generation(run: Run, wish: Wish) -> int:
    """Return the generation: by default the last, and of means the state after it."""
    if run.generations == 0:
        raise RunFileError(f"{run.path} has no committed generation yet")
    only_mean = wish.mean and not wish.names_individuals
    last = run.generations if only_mean and run.attributes.get("kind") != "sample" else run.generations - 1
    if wish.generation is not None and not 0 <= wish.generation <= last:
        raise ConfigError(f"--generation {wish.generation}: expected 0 to {last}")
    return last if wish.generation is None else wish.generation


def _individuals(run: Run, wish: Wish, generation: int) -> list[Choice]:
    if not has_offspring(run):
        raise RunFileError(f"{run.path}: its individuals are tasks, not offspring, and are not kept; use --mean")
    size = run.config.population.size
    for index in wish.individuals:
        if not 0 <= index < size:
            raise ConfigError(f"--individual {index}: expected 0 to {size - 1}")
    if wish.extremes > size:
        raise ConfigError(f"--extremes {wish.extremes}: the population has {size} individuals")
    chosen = [Choice(generation, index) for index in wish.individuals]
    directions = {f"best {side}": LEFT_RIGHT[side] for side in wish.best}
    directions |= {f"toward {text.removesuffix('deg')} deg": _angle(text) for text in wish.toward}
    if directions:
        chosen += _toward(run, generation, directions)
    if wish.extremes:
        chosen += [Choice(generation, index) for index in extremes(_valid(run, generation), wish.extremes)]
    return chosen or [Choice(generation, i, why="farthest") for i in farthest(_valid(run, generation), 1)]


def _toward(run: Run, generation: int, directions: dict[str, float]) -> list[Choice]:
    """Choose the individual that got farthest in each direction."""
    ends = _valid(run, generation)
    if ends.shape[1] > 2 or not walks(run):
        raise RunFileError(f"{run.path}: its behavior is no place, so it has no directions; use --extremes")
    chosen = []
    for why, angle in directions.items():
        if ends.shape[1] == 1 and angle % 180 != 0:
            raise ConfigError(f"--toward {angle:g}: this robot moves along x only; expected 0 or 180 degrees")
        reached = [along(angle, *place) for place in ends.tolist()]
        chosen.append(Choice(generation, int(np.nanargmax(reached)), why=why))
    return chosen


def _angle(text: str) -> float:
    try:
        angle = float(text.removesuffix("deg"))
    except ValueError:
        angle = np.nan
    if not np.isfinite(angle):
        raise ConfigError(f"--toward {text}: expected degrees from +x towards +y, for example 45deg")
    return angle


def walks(run: Run) -> bool:
    """Tell whether a run's behaviours are places: the end of a walk."""
    task = run.config.task
    return hasattr(task, "axes") or getattr(task, "behavior", "") in ("final_x", "final_xy")


def places(run: Run, generation: int) -> Floats:
    """Return where the individuals of a generation ended [N, 1 or 2], or their behaviours [N, B]; NaN where invalid."""
    behavior: Floats = np.array(run["behavior"][generation], np.float64)
    behavior[~np.asarray(run["valid"][generation], bool)] = np.nan
    axes: int = getattr(run.config.task, "axes", 0)
    return behavior[:, -axes:]  # of several noted steps the last; without axes all numbers


def _valid(run: Run, generation: int) -> Floats:
    found = places(run, generation)
    if not np.isfinite(found).all(axis=1).any():
        raise RunFileError(f"{run.path}: generation {generation} has no valid individual")
    return found


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
