"""The value of any objective for generations that are in a run file, at any bandwidth: nothing is simulated."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ees_mpi.analysis.numbers import measures as metrics
from ees_mpi.analysis.numbers.measures import Settings
from ees_mpi.analysis.offspring import Cloud, cloud, has_cloud, which
from ees_mpi.config import apply
from ees_mpi.contracts import Memory, Objective
from ees_mpi.errors import ConfigError, ObjectiveError
from ees_mpi.objectives import OBJECTIVES
from ees_mpi.ranks import Ranks
from ees_mpi.store.reader import Run


@dataclass(frozen=True)
class Point:
    """An objective's value J for one generation."""

    generation: int
    objective: str
    bandwidth: float | None  # None: it has none
    value: float
    entropy: float | None  # of the behaviour in the task's units, nats, where J is an entropy of whitened ones
    warning: str


def objectives(run: Run, name: str | None, settings: Sequence[str]) -> list[Objective]:
    """Return the objectives that are asked for: the run's own where no name is given; of a blend, its parts."""
    own = run.config.sections().get("objective", {"name": name})
    tables = {"objective": own if name in (None, own["name"]) else {"name": name}}
    for setting in settings:
        if not setting.strip().startswith("objective."):
            raise ConfigError(f"--set {setting}: expected a key of the objective, for example objective.bandwidth=0.5")
        apply(tables, setting)
    built: Objective = OBJECTIVES.build(tables["objective"])
    return [part for _, part in built.members]


def points(
    run: Run, parts: Sequence[Objective], generations: Sequence[int], bandwidths: Sequence[float | str]
) -> Iterator[Point]:
    """Yield the values for each generation, objective and bandwidth; the bandwidth that it has where none is given."""
    for objective in parts:
        memory: Memory = {}
        begun = 0
        for g in sorted(which(run, each) for each in generations):
            if objective.remembers:
                for earlier in (each for each in range(begun, g) if has_cloud(run, each)):
                    memory = objective.remember(cloud(run, earlier).outcomes, memory)
                begun = g
            if len(generations) > 1 and not has_cloud(run, g):
                yield Point(g, OBJECTIVES.name_of(objective), None, math.nan, None, "")
                continue
            yield from _points(objective, g, cloud(run, g), memory, bandwidths)


def _points(
    objective: Objective, generation: int, seen: Cloud, memory: Memory, bandwidths: Sequence[float | str]
) -> Iterator[Point]:
    name = OBJECTIVES.name_of(objective)
    if objective.bandwidth is None:
        yield Point(generation, name, None, _value(objective, seen, memory), None, "")
        return
    for asked in bandwidths or (objective.bandwidth,):
        settings = Settings(bandwidth=asked)
        width = settings.kernel(seen)
        value = _value(objective.with_bandwidth(width), seen, memory)
        warning = metrics.saturation(seen, settings)
        yield Point(generation, name, width, value, metrics.entropy(seen, settings), warning)


def _value(objective: Objective, seen: Cloud, memory: Memory) -> float:
    try:
        return objective.value(seen.outcomes, memory, Ranks())
    except ObjectiveError as error:
        raise ConfigError(str(error)) from error
