"""The methods of learning, by name: `ees`, evolution strategies; `maml`, whose class is in `config.maml`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from ees_mpi.arrays import Arrays, Bandwidth
from ees_mpi.errors import ConfigError, before_rollouts
from ees_mpi.registry import Family
from ees_mpi.strategy.objectives import OBJECTIVES
from ees_mpi.strategy.objectives.base import Objective
from ees_mpi.strategy.optimizers import OPTIMIZERS
from ees_mpi.strategy.optimizers.base import Optimizer
from ees_mpi.strategy.populations import POPULATIONS
from ees_mpi.strategy.populations.base import Population
from ees_mpi.tasks.base import Task


class Method(Protocol):
    """How a run learns: the settings of its config sections."""

    name: ClassVar[str]  # `method` of the config
    method_sections: ClassVar[Mapping[str, Any]]  # the config sections of the method: a family of parts, or a struct

    @property
    def algorithm(self) -> str: ...  # what the run optimises: the name of its objective, or of the method
    @property
    def climbs(self) -> str: ...  # the metric that the run climbs; empty: the first of the user's own objectives
    @property
    def own_objectives(self) -> Sequence[str]: ...  # the functions of the user's objectives, whose values are logged
    @property
    def bandwidth(self) -> Bandwidth: ...  # of the kernel of the logged entropy
    @property
    def uses_torch(self) -> bool: ...  # whether the bits depend on torch

    @property
    def rollouts(self) -> int:  # of one row of a generation
        return 1

    @classmethod
    def build(cls, sections: Mapping[str, Any]) -> Self:
        """Read the config sections of the method."""

    def sections(self) -> Mapping[str, Any]:
        """Return the config sections of the method as plain tables."""

    def check(self, task: Task, population: Population) -> None:
        """Raise a ConfigError if the method cannot work with a task and a population."""

    def try_out(self, task: Task, population: Population) -> None:
        """Raise a ConfigError or MissingExtra if the method cannot train with them on this machine."""

    def learned(self, task: Task) -> Arrays:
        """Return what the method learns beside the arrays of the population, before the first generation."""
        return {}

    def moments(self, task: Task, learned: Arrays) -> Arrays:
        """Return the moments of the optimizer before the first generation."""
        return {}


@dataclass(frozen=True)
class Evolution(Method):
    """Evolution strategies: an objective gives weights, an optimizer takes the step."""

    objective: Objective
    optimizer: Optimizer

    name: ClassVar[str] = "ees"
    method_sections: ClassVar[Mapping[str, Any]] = {"objective": OBJECTIVES, "optimizer": OPTIMIZERS}

    @classmethod
    def build(cls, sections: Mapping[str, Any]) -> "Evolution":
        return cls(OBJECTIVES.build(sections["objective"]), OPTIMIZERS.build(sections["optimizer"]))

    def sections(self) -> dict[str, Any]:
        return {"objective": OBJECTIVES.section(self.objective), "optimizer": OPTIMIZERS.section(self.optimizer)}

    @property
    def algorithm(self) -> str:
        """The name of the objective."""
        return OBJECTIVES.name_of(self.objective)

    @property
    def climbs(self) -> str:
        """The metric that the objective climbs; of a blend, its first part. Empty: the user's objective itself."""
        return self.objective.members[0][1].climbs

    @property
    def own_objectives(self) -> list[str]:
        return [part.label for _, part in self.objective.members if part.label]

    @property
    def bandwidth(self) -> Bandwidth:
        """The bandwidth of the logged entropy: that of the first objective with a kernel, or Scott's rule."""
        return next((part.bandwidth for _, part in self.objective.members if part.bandwidth), "scott")

    @property
    def uses_torch(self) -> bool:
        return any(part.uses_torch for _, part in self.objective.members)

    @property
    def uses_fitness(self) -> bool:
        return any(part.uses_fitness for _, part in self.objective.members)

    def check(self, task: Task, population: Population) -> None:
        """Raise a ConfigError if the parts cannot work together."""
        for _, part in self.objective.members:
            part.check()
        self.optimizer.check()
        starts = max(part.starts for _, part in self.objective.members)
        if task.rollouts < starts:
            raise ConfigError(
                f'objective.name = "{self.algorithm}" compares the behaviours from several starts; expected '
                f"task.rollouts = {starts} or more, got {task.rollouts}"
            )
        if not population.has_individuals:
            raise ConfigError(f'population.name: "{POPULATIONS.name_of(population)}" belongs to another method')

    @before_rollouts()
    def try_out(self, task: Task, population: Population) -> None:
        """Try the user's plugins on random numbers, so that faulty ones are found before the first rollout."""
        if self.uses_fitness and not task.gives_fitness:
            raise ConfigError(
                f"{task.own_code}: the objective needs a fitness; expected f(z) to return behavior, fitness"
            )
        for _, part in self.objective.members:
            part.try_out(population.size, task.behavior_dim)
        population.try_out(task.parameters)
        self.optimizer.try_out(population.learned(np.zeros((population.components, task.parameters), np.float32)))

    def moments(self, task: Task, learned: Arrays) -> Arrays:
        return self.optimizer.start(learned)


METHODS = Family("method", {"ees": "ees_mpi.config.methods:Evolution", "maml": "ees_mpi.config.maml:Maml"})
