"""Choosing individuals of a run: by number, by distance in a direction, or those that differ most."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ees_mpi.analysis.offspring import check_committed, extremes, has_positions, positions
from ees_mpi.analysis.subject import subject
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.outcomes import Floats
from ees_mpi.store.reader import Run
from ees_mpi.tasks.locomotion import along, angle_of, direction_name


@dataclass(frozen=True)
class ReplayRequest:
    """The command line of `replay`: the individuals, by default the farthest one, and the video."""

    individuals: Sequence[int] = ()
    toward: Sequence[str] = ()  # left, right, 45deg
    extremes: int = 0
    mean: bool = False
    generation: int | None = None
    video: Path | None = None
    size: tuple[int, int] | None = None  # of one panel; None: depends on the number of panels
    speed: float = 1.0

    @property
    def names_individuals(self) -> bool:
        """Return whether any individual is requested."""
        return bool(self.individuals or self.toward or self.extremes)


@dataclass(frozen=True)
class Choice:
    """One policy of a run: an individual of a generation, or a mean from which it was drawn."""

    generation: int
    individual: int | None = None
    component: int = 0  # of a mean
    reason: str = ""

    @property
    def name(self) -> str:
        """Return the name of the policy."""
        return f"individual {self.individual}" if self.individual is not None else f"mean {self.component}"

    @property
    def title(self) -> str:
        """Return the title of its film."""
        return f"generation {self.generation}, {self.name}" + (f", {self.reason}" if self.reason else "")


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
    """Return the generation: by default the last one, or for means the state after it."""
    check_committed(run)
    only_mean = request.mean and not request.names_individuals
    last = run.generations if only_mean and subject(run).trained else run.generations - 1
    if request.generation is not None and not 0 <= request.generation <= last:
        raise ConfigError(f"--generation {request.generation}: expected 0 to {last}")
    return last if request.generation is None else request.generation


def _individuals(run: Run, request: ReplayRequest, generation: int) -> list[Choice]:
    if not run.config.population.has_individuals:
        raise RunFileError(f"{run.path}: its rows are tasks, not individuals that can be replayed; use --mean")
    size = run.config.population.size
    for index in request.individuals:
        if not 0 <= index < size:
            raise ConfigError(f"--individual {index}: expected 0 to {size - 1}")
    if request.extremes > size:
        raise ConfigError(f"--extremes {request.extremes}: the population has {size} individuals")
    chosen = [Choice(generation, index) for index in request.individuals]
    if request.toward:
        chosen += _toward(run, generation, [angle_of(text, "--toward") for text in request.toward])
    if request.extremes:
        chosen += [Choice(generation, index) for index in extremes(_ends(run, generation), request.extremes)]
    if not chosen:
        farthest = int(np.nanargmax(np.square(_ends(run, generation)).sum(axis=1)))
        chosen.append(Choice(generation, farthest, reason="farthest"))
    return chosen


def _toward(run: Run, generation: int, angles: Sequence[float]) -> list[Choice]:
    """Choose the individual that went farthest in each direction."""
    ends = _ends(run, generation)
    if ends.shape[1] > 2 or not has_positions(run):
        raise RunFileError(f"{run.path}: its behavior is not a position, so it has no directions; use --extremes")
    chosen = []
    for angle in angles:
        name = direction_name(angle)
        if ends.shape[1] == 1 and angle % 180 != 0:
            raise ConfigError(f"--toward {name}: this robot moves along x only; expected left or right")
        reached = [along(angle, *end) for end in ends.tolist()]
        chosen.append(Choice(generation, int(np.nanargmax(reached)), reason=f"farthest {name}"))
    return chosen


def _ends(run: Run, generation: int) -> Floats:
    """Return final positions [N, axes]; raise a RunFileError if no individual is valid."""
    ends = positions(run, generation)
    if not np.isfinite(ends).all(axis=1).any():
        raise RunFileError(f"{run.path}: generation {generation} has no valid individual")
    return ends
