"""The method `es-maml` of version 0.2.0: only its settings are left, so that its run files can be read.

Now it is `jobs/examples/relatives/es_maml.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ees_mpi.config.methods import Evolution
from ees_mpi.contracts import Method
from ees_mpi.registry import Part, convert, part_settings


class Climbing(Part, frozen=True):
    """The settings of the hill climbing that adapted each individual to a direction."""

    queries: int = 20
    query_std: float = 0.1


@dataclass(frozen=True)
class EsMaml(Evolution):
    """Evolution strategies in which each individual adapted to a direction by hill climbing."""

    climbing: Climbing

    name: ClassVar[str] = "es-maml"
    method_sections: ClassVar[Mapping[str, Any]] = {**Evolution.method_sections, "climbing": Climbing}
    retired = 'method = "es-maml"'

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
        """The method of a sample of offspring, which do not climb."""
        return Evolution(self.objective, self.optimizer)
