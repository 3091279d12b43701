"""The state of a run: all that it carries from one generation to the next."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.config import Config
from ees_mpi.outcomes import Floats, Singles
from ees_mpi.policies import mean_std
from ees_mpi.streams import stream

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class State:
    """All that a run carries from one generation to the next; the same bits on every rank."""

    generation: int
    mean: Singles  # [K, D]
    moments: Arrays
    observations: Floats  # [1 + 2 O]: how many observations, their sums, the sums of their squares
    memory: Arrays = field(default_factory=dict)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named arrays, in a fixed order: what is digested and stored."""
        named: dict[str, NDArray[Any]] = {
            "generation": np.array(self.generation, np.int64),
            "mean": self.mean,
        }
        named |= {f"moments/{key}": self.moments[key] for key in sorted(self.moments)}
        named |= {"observations": self.observations}
        named |= {f"memory/{key}": self.memory[key] for key in sorted(self.memory)}
        return named

    @classmethod
    def from_arrays(cls, named: Arrays) -> "State":
        """Read a state back from its named arrays."""

        def group(prefix: str) -> dict[str, NDArray[Any]]:
            return {key.removeprefix(prefix): named[key] for key in named if key.startswith(prefix)}

        return cls(
            generation=int(named["generation"]),
            mean=named["mean"],
            moments=group("moments/"),
            observations=named["observations"],
            memory=group("memory/"),
        )

    def digest(self) -> bytes:
        """Digest every bit of the state."""
        digest = hashlib.sha256()
        for name, array in self.arrays().items():
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.digest()

    def observation_mean_std(self) -> tuple[Floats, Floats]:
        """Return what observations are normalised with: mean 0 and sd 1 until there are any."""
        return mean_std(self.observations)


def first_state(config: Config) -> State:
    """Return the state before the first generation."""
    generator = stream(config.run.seed, "initial")
    components = range(config.population.components)
    mean = np.stack([config.task.initial(generator) for _ in components])
    observations = np.zeros(1 + 2 * config.task.observation_dim)
    return State(0, mean, config.moments(mean), observations)
