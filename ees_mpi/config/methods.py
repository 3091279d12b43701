"""The methods of learning, by name: `ees`, evolution strategies; `maml`, whose class is in `config.maml`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ees_mpi.arrays import Arrays, Bandwidth
from ees_mpi.config.maml import Maml
from ees_mpi.config.method import Method
from ees_mpi.errors import ConfigError, before_rollouts
from ees_mpi.strategy.objectives import OBJECTIVES
from ees_mpi.strategy.objectives.base import Objective
from ees_mpi.strategy.optimizers import OPTIMIZERS
from ees_mpi.strategy.optimizers.base import Optimizer
from ees_mpi.strategy.populations import POPULATIONS
from ees_mpi.strategy.populations.base import Population
from ees_mpi.tasks.base import Task


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
        """The functions of the user's own objectives, whose values are logged."""
        return [part.label for _, part in self.objective.members if part.label]

    @property
    def bandwidth(self) -> Bandwidth:
        """The bandwidth of the logged entropy: that of the objective, or Scott's rule."""
        return self.objective.bandwidth or "scott"

    @property
    def uses_torch(self) -> bool:
        return self.objective.uses_torch

    def check(self, task: Task, population: Population) -> None:
        """Raise a ConfigError if the parts cannot work together."""
        self.objective.check()
        self.optimizer.check()
        if task.rollouts < self.objective.starts:
            raise ConfigError(
                f'objective.name = "{self.algorithm}" compares the behaviours from several starts; expected '
                f"task.rollouts = {self.objective.starts} or more, got {task.rollouts}"
            )
        if not population.has_individuals:
            raise ConfigError(f'population.name: "{POPULATIONS.name_of(population)}" belongs to another method')

    @before_rollouts()
    def try_out(self, task: Task, population: Population) -> None:
        """Try the user's plugins on random numbers, so that faulty ones are found before the first rollout."""
        self.objective.try_out(population.size, task.behavior_dim)
        population.try_out(task.parameters)
        self.optimizer.try_out(population.learned(np.zeros((population.components, task.parameters), np.float32)))

    def moments(self, task: Task, learned: Arrays) -> Arrays:
        return self.optimizer.start(learned)


METHODS: dict[str, type[Method]] = {method.name: method for method in (Evolution, Maml)}
