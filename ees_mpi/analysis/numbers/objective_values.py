"""The value of any objective for the generations of a run file, at any bandwidth. Nothing is simulated."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ees_mpi.analysis.numbers.measures import Settings, entropy, saturation
from ees_mpi.analysis.offspring import Offspring, check_generation, has_valid, read_offspring
from ees_mpi.contracts import Memory, Objective
from ees_mpi.errors import ConfigError, ObjectiveError
from ees_mpi.objectives import OBJECTIVES
from ees_mpi.ranks import Ranks
from ees_mpi.registry.toml import apply
from ees_mpi.store.reader import Run


@dataclass(frozen=True)
class Point:
    """The value J of an objective for one generation."""

    generation: int
    objective: str
    bandwidth: float | None  # None: the objective has none
    value: float
    entropy: float | None = None  # nats, in the task's units, of whitened behaviors, if J has a bandwidth
    warning: str = ""


def objectives(run: Run, name: str | None, settings: Sequence[str]) -> list[Objective]:
    """Return the requested objectives: by default the run's own; the parts of a blend one by one."""
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
    """Yield the values for each generation, objective and bandwidth; by default at the objective's bandwidth."""
    for objective in parts:
        name = objective.label or OBJECTIVES.name_of(objective)
        memory: Memory = {}
        remembered = 0
        for g in sorted(check_generation(run, each) for each in generations):
            if objective.remembers:
                for earlier in (each for each in range(remembered, g) if has_valid(run, each)):
                    memory = objective.remember(read_offspring(run, earlier).outcomes, memory)
                remembered = g
            if len(generations) > 1 and not has_valid(run, g):
                yield Point(g, name, None, math.nan)
                continue
            offspring = read_offspring(run, g)
            if objective.bandwidth is None:
                yield Point(g, name, None, _value(objective, offspring, memory))
                continue
            for settings in (Settings(bandwidth=each) for each in bandwidths or (objective.bandwidth,)):
                width = settings.kernel(offspring)
                value = _value(objective.with_bandwidth(width), offspring, memory)
                yield Point(g, name, width, value, entropy(offspring, settings), saturation(offspring, settings))


def _value(objective: Objective, offspring: Offspring, memory: Memory) -> float:
    try:
        return objective.value(offspring.outcomes, memory, Ranks())
    except ObjectiveError as error:
        raise ConfigError(str(error)) from error
