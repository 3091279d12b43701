"""Sections `run` and `noise` of a config."""

from typing import Annotated

import msgspec

from ees_mpi.errors import ConfigError
from ees_mpi.registry import Count, Part, key

# Keys that a resumed run may change: they do not change its bits.
FREE_ON_RESUME = frozenset(
    {"run.generations", "run.needs_start", "run.fsync", "run.fold_minutes", "run.stall_minutes", "task.device"}
)

MAX_INTEGER = 2**63 - 1
FEWEST_SLICES = 100  # noise vectors of the table of a new run
Seed = Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER)]


class RunSettings(Part, frozen=True):
    """The number of generations, the random seed, and settings of the run file."""

    generations: Annotated[Count, key("The number of generations to train.", "generations")] = 100
    seed: Annotated[Seed, key("The random seed of the whole run.")] = 0
    needs_start: Annotated[bool, key("Whether the run needs `train --from`, a trained run to start from.")] = False
    evaluate_mean_every: Annotated[
        int, key("How often the unperturbed mean is evaluated, for the log; 0: never.", "generations", ge=0)
    ] = 10
    fsync: Annotated[bool, key("Whether every commit waits until the disk has it; else a power cut may lose it.")] = (
        True
    )
    fold_minutes: Annotated[float, key("The time between two folds of the journal.", "minutes", gt=0, le=1e7)] = 5.0
    stall_minutes: Annotated[
        float, key("A rank without progress for this time ends the job; 0: no limit.", "minutes", ge=0, le=1e7)
    ] = 30.0


class NoiseSettings(Part, frozen=True):
    """The table of random numbers from which individuals are made; each node holds one."""

    size: Annotated[Count, key("The length of the table: 4 bytes each, in the memory of each node.", "numbers")] = 2**25
    seed: Annotated[Seed | None, key("The random seed of the table; not set: the run's seed.")] = None

    def slices(self, parameters: int) -> int:
        """Return the number of different noise vectors of this length."""
        return self.size - parameters + 1

    def check_slices(self, parameters: int) -> None:
        """Raise a ConfigError if a new run would have so few noise vectors that its individuals are copies."""
        if self.slices(parameters) < FEWEST_SLICES:
            raise ConfigError(
                f"noise.size: expected at least {parameters + FEWEST_SLICES - 1}, for {FEWEST_SLICES} noise vectors of "
                f"{parameters} parameters; got {self.size}"
            )
