"""Choosing individuals of a run: by number, by how far they got in a direction, or the ones that differ most."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ees_mpi.analysis.offspring import extremes, farthest, has_offspring, places, walks
from ees_mpi.commands.adapt import LEFT_RIGHT
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.outcomes import Floats
from ees_mpi.store.reader import Run
from ees_mpi.tasks.locomotion import along


@dataclass(frozen=True)
class ReplayRequest:
    """The individuals that a command asks for; by default the one that went farthest."""

    individuals: Sequence[int] = ()
    best: Sequence[str] = ()  # left, right
    toward: Sequence[str] = ()  # degrees
    extremes: int = 0
    mean: bool = False
    generation: int | None = None

    @property
    def names_individuals(self) -> bool:
        """Whether it asks for any individual."""
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
        """The name of the policy."""
        return f"individual {self.individual}" if self.individual is not None else f"mean {self.component}"

    @property
    def title(self) -> str:
        """The title of its film."""
        return f"generation {self.generation}, {self.name}" + (f", {self.why}" if self.why else "")


def choose(run: Run, request: ReplayRequest) -> list[Choice]:
    """Return the requested individuals in the order of the options, each once."""
    generation = _generation(run, request)
    chosen: list[Choice] = []
    if request.mean:
        chosen += [Choice(generation, None, k) for k in range(run.config.population.components)]
    if request.names_individuals or not request.mean:
        chosen += _individuals(run, request, generation)
    first: dict[tuple[int | None, int], Choice] = {}
    for choice in chosen:
        first.setdefault((choice.individual, choice.component), choice)
    return list(first.values())


def _generation(run: Run, request: ReplayRequest) -> int:
    """Return the generation: by default the last, and of means the state after it."""
    if run.generations == 0:
        raise RunFileError(f"{run.path} has no committed generation yet")
    only_mean = request.mean and not request.names_individuals
    last = run.generations if only_mean and run.attributes.get("kind") != "sample" else run.generations - 1
    if request.generation is not None and not 0 <= request.generation <= last:
        raise ConfigError(f"--generation {request.generation}: expected 0 to {last}")
    return last if request.generation is None else request.generation


def _individuals(run: Run, request: ReplayRequest, generation: int) -> list[Choice]:
    if not has_offspring(run):
        raise RunFileError(f"{run.path}: its individuals are tasks, not offspring, and are not kept; use --mean")
    size = run.config.population.size
    for index in request.individuals:
        if not 0 <= index < size:
            raise ConfigError(f"--individual {index}: expected 0 to {size - 1}")
    if request.extremes > size:
        raise ConfigError(f"--extremes {request.extremes}: the population has {size} individuals")
    chosen = [Choice(generation, index) for index in request.individuals]
    directions = {f"best {side}": LEFT_RIGHT[side] for side in request.best}
    directions |= {f"toward {text.removesuffix('deg')} deg": _angle(text) for text in request.toward}
    if directions:
        chosen += _toward(run, generation, directions)
    if request.extremes:
        chosen += [Choice(generation, index) for index in extremes(_valid(run, generation), request.extremes)]
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


def _valid(run: Run, generation: int) -> Floats:
    found = places(run, generation)
    if not np.isfinite(found).all(axis=1).any():
        raise RunFileError(f"{run.path}: generation {generation} has no valid individual")
    return found
