"""Methods: how a run learns."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

from ees_mpi.arrays import Arrays, Bandwidth
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
