"""The methods of learning, by name: `ees`, evolution strategies; `es-maml`; `maml`, whose class is in `config.maml`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from ees_mpi.config.maml import Maml
from ees_mpi.contracts import Method, Objective, Optimizer, Population, Task
from ees_mpi.errors import ConfigError, before_rollouts
from ees_mpi.objectives import OBJECTIVES
from ees_mpi.optimizers import OPTIMIZERS
from ees_mpi.outcomes import Arrays, Field
from ees_mpi.populations import POPULATIONS
from ees_mpi.populations.custom import more_learned, try_update
from ees_mpi.registry import Part, convert, key, part_settings


@dataclass(frozen=True)
class Evolution(Method):
    """Evolution strategies: an objective gives weights, an optimizer takes the step."""

    objective: Objective
    optimizer: Optimizer

    name: ClassVar[str] = "ees"
    own_sections: ClassVar[Mapping[str, Any]] = {"objective": OBJECTIVES, "optimizer": OPTIMIZERS}
    fields: ClassVar[Mapping[str, Field]] = {
        "objective_value": Field(("own_objective",), "<f8", "value of each objective of the user; NaN: not computed")
    }

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
    def headline(self) -> str:
        return self.objective.headline

    @property
    def own_values(self) -> list[str]:
        """The names of the user's own objectives, whose values are logged; the second f is f_2."""
        names = [part.label for _, part in self.objective.members if part.label]
        places = [names[: number + 1].count(name) for number, name in enumerate(names)]
        return [f"{name}_{place}" if place > 1 else name for name, place in zip(names, places, strict=True)]

    @property
    def bandwidth(self) -> float:
        """The bandwidth of the logged entropy: that of the objective, or 1."""
        return self.objective.bandwidth or 1.0

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

    def check_means(self, population: Population) -> None:
        """Raise a ConfigError if an update lacks its means; a sample of offspring has other populations."""
        if self.objective.needs_means != population.has_means:
            raise ConfigError('objective.name: expected "nsr" together with population.name "chosen", got one of them')

    @before_rollouts()
    def try_out(self, task: Task, population: Population) -> None:
        """Try the user's plugins on random numbers, so that faulty ones are found before the first rollout."""
        self.check_means(population)
        self.objective.try_out(population.size, task.behavior_dim)
        try_update(population, self.optimizer, task.parameters)

    def moments(self, task: Task, learned: Arrays) -> Arrays:
        return self.optimizer.start(learned)

    def file_axes(self, task: Task, population: Population) -> dict[str, int]:
        """Return the size of all that a custom population learns beside its means."""
        return {"learned_number": more_learned(population, task.parameters), "own_objective": len(self.own_values)}


class Climbing(Part, frozen=True):
    """The settings of the hill climbing that adapts each individual to its direction."""

    queries: Annotated[int, key("The mutations that an individual tries, one after the other.", "rollouts", ge=1)] = 20
    query_std: Annotated[float, key("The standard deviation of these mutations.", gt=0, le=1e30)] = 0.1


@dataclass(frozen=True)
class EsMaml(Evolution):
    """Evolution strategies in which each individual adapts to a direction by hill climbing."""

    climbing: Climbing

    name: ClassVar[str] = "es-maml"
    own_sections: ClassVar[Mapping[str, Any]] = {**Evolution.own_sections, "climbing": Climbing}

    @classmethod
    def build(cls, sections: Mapping[str, Any]) -> "EsMaml":
        parts = Evolution.build(sections)
        return cls(parts.objective, parts.optimizer, convert(sections["climbing"], Climbing, "climbing"))

    def sections(self) -> dict[str, Any]:
        return {**super().sections(), "climbing": part_settings(self.climbing)}

    @property
    def algorithm(self) -> str:
        """The name of the method."""
        return self.name

    @property
    def rollouts(self) -> int:
        """The number of rollouts of one individual: its own, and those of its mutations."""
        return 1 + self.climbing.queries

    @property
    def of_offspring(self) -> Method:
        """The method of a sample of offspring, which do not adapt."""
        return Evolution(self.objective, self.optimizer)

    def check(self, task: Task, population: Population) -> None:
        """Raise a ConfigError if the task has no directions, or does not run on CPUs."""
        super().check(task, population)
        if task.heading is None:
            raise ConfigError('task: method = "es-maml" adapts to directions; expected cheetah, ant or another walker')
        if (task.device or "cpu") != "cpu":
            raise ConfigError(f'task.device: method = "es-maml" runs on CPUs; expected "cpu", got "{task.device}"')
        if population.has_means or population.components > 1 or task.rollouts > 1 or not task.deterministic:
            raise ConfigError(
                'method = "es-maml" compares single rollouts that repeat: expected one mean, task.rollouts = 1 and '
                "task.deterministic = true"
            )


METHODS: dict[str, type[Method]] = {method.name: method for method in (Evolution, Maml, EsMaml)}
