"""The state of a run."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.config import Config
from ees_mpi.noise import stream
from ees_mpi.outcomes import Arrays, Floats, Singles
from ees_mpi.policies import mean_std
from ees_mpi.store.layout import digest


@dataclass(frozen=True)
class State:
    """Everything that a run carries from one generation to the next; the same bits on every rank."""

    generation: int
    learned: Arrays  # by the population: the mean(s) [K, D], and its other learned arrays
    moments: Arrays  # of the optimizer
    observations: Floats  # [1 + 2 O]: the number of observations, their sums, the sums of their squares
    memory: Arrays = field(default_factory=dict)  # of the objective

    @property
    def mean(self) -> Singles:
        """The mean(s) [K, D]."""
        return self.learned["mean"]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named arrays, in the fixed order of the digest and the run file."""
        named: dict[str, NDArray[Any]] = {"generation": np.array(self.generation, np.int64)}
        named |= {key: self.learned[key] for key in sorted(self.learned)}
        named |= {f"moments/{key}": self.moments[key] for key in sorted(self.moments)}
        named |= {"observations": self.observations}
        named |= {f"memory/{key}": self.memory[key] for key in sorted(self.memory)}
        return named

    @classmethod
    def from_arrays(cls, named: Arrays) -> "State":
        """Return the state that has these named arrays."""

        def group(prefix: str) -> dict[str, NDArray[Any]]:
            return {key.removeprefix(prefix): named[key] for key in named if key.startswith(prefix)}

        return cls(
            generation=int(named["generation"]),
            learned={key: named[key] for key in named if "/" not in key and key not in ("generation", "observations")},
            moments=group("moments/"),
            observations=named["observations"],
            memory=group("memory/"),
        )

    def digest(self) -> bytes:
        """Return a digest of every bit of the state."""
        return digest(self.arrays())

    def observation_mean_std(self) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of the observations; 0 and 1 if there are none yet."""
        return mean_std(self.observations)


def first_state(config: Config) -> State:
    """Return the state before the first generation."""
    generator = stream(config.run.seed, "initial")
    means = np.stack([config.task.initial(generator) for _ in range(config.population.components)])
    if len(means) > 1 and config.population.isotropic and (means == means[0]).all():
        means = split_mean(config, means[:1], np.float32(config.population.std))  # equal means would never part
    return state_of(config, means, np.zeros(1 + 2 * config.task.observation_dim))


def split_mean(config: Config, mean: Singles, std: Any) -> Singles:
    """Return the means [K, D] of a config, drawn from a population around one mean [1, D]; `std`: of it."""
    shape = (config.population.components, config.task.parameters)
    return np.asarray(mean + std * stream(config.run.seed, "split").standard_normal(shape, np.float32))


def state_of(config: Config, means: Singles, observations: Floats) -> State:
    """Return the state of a run that begins with means [K, D] and observation sums [1 + 2 O]."""
    config.noise.check_slices(means.shape[1])
    learned = config.population.learned(means)
    return State(0, learned, config.method.moments(config.task, learned), observations)
