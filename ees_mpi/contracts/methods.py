"""The Protocol of a method of learning: evolution strategies, or a folder with a module `method`."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

from ees_mpi.contracts import Population, Task
from ees_mpi.outcomes import Arrays, Field
from ees_mpi.registry import Hooks


class Method(Protocol):
    """How a run learns: the settings of its config sections, and where its parts are."""

    name: ClassVar[str]  # `method` of the config
    own_sections: ClassVar[Mapping[str, Any]]  # the config sections of the method: a family of parts, or a struct
    free_on_resume: ClassVar[frozenset[str]]  # keys of these sections that a resumed run may change
    fields: ClassVar[Mapping[str, Field]]  # arrays that each generation has in addition; a run has all or none
    hooks: ClassVar[Hooks]
    inherited: ClassVar[tuple[str, ...]]  # moments that a run takes from the run that it starts from; logged, too

    @property
    def algorithm(self) -> str: ...  # what the run optimises: the name of its objective, or of the method
    @property
    def headline(self) -> str: ...  # the metric that progress lines show
    @property
    def own_values(self) -> Sequence[str]: ...  # the names of the user's own objectives, whose values are logged
    @property
    def bandwidth(self) -> float: ...  # of the kernel of the logged entropy
    @property
    def uses_torch(self) -> bool: ...  # whether the bits depend on torch
    @property
    def rollouts(self) -> int: ...  # of one row of a generation

    @classmethod
    def build(cls, sections: Mapping[str, Any]) -> Self:
        """Read the config sections of the method."""

    def sections(self) -> Mapping[str, Any]:
        """Return the config sections of the method as plain tables."""

    def check(self, task: Task, population: Population) -> None:
        """Raise a ConfigError if the method cannot work with a task and a population."""

    def rehearse(self, task: Task, population: Population) -> None:
        """Raise a ConfigError or MissingExtra if the method cannot train with them on this machine."""

    def moments(self, task: Task, learned: Arrays) -> Arrays:
        """Return the moments before the first generation."""

    def file_axes(self, task: Task, population: Population) -> Mapping[str, int]:
        """Return the sizes of further axes of the run file."""

    def warning(self, arrays: Arrays) -> str | None:
        """Return a warning about a generation, if there is one."""
