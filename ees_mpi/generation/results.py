"""The parts that the generations of all methods share: draws, results, the record for the run file, times."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ees_mpi import metrics
from ees_mpi.config import Config
from ees_mpi.errors import TaskError, collective
from ees_mpi.generation.state import State
from ees_mpi.noise import stream
from ees_mpi.outcomes import MAX_BEHAVIOR, Arrays, Draw, Floats, Outcomes, Singles, flat_learned, readonly
from ees_mpi.ranks import Ranks


class Unfinished(Exception):
    """A stop request came in mid-generation, on every rank. The generation is lost, and begins again."""


class AdaptedPolicy(NamedTuple):
    """A policy that was adapted to a direction, before it is scored; see `commands.adapt`."""

    parameters: Singles  # [D]
    how: str  # "mutation" or "gradient", for the file
    attributes: Mapping[str, Any]
    groups: Mapping[str, Arrays]
    sentence: str  # with {direction}


@dataclass(frozen=True)
class Record:
    """One generation as the run file stores it: its arrays by name, and this rank's seconds by phase."""

    generation: int
    arrays: Arrays
    seconds: Mapping[str, float]
    own_names: Sequence[str] = ()  # of the values of the user's objectives

    def __repr__(self) -> str:
        shown = [f"{name}={value:.4g}" for name, value in self.metrics.items() if not name.startswith("seconds_")]
        return f"Record(generation={self.generation}, {', '.join(shown)}; {len(self.arrays)} arrays)"

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return one array by its name in the run file."""
        return self.arrays[name]

    @property
    def metrics(self) -> dict[str, float]:
        """All single numbers of the generation, for programs that log curves; also the user's objectives, by name."""
        numbers = {name: np.asarray(value) for name, value in self.arrays.items()}
        single = {name: value.item() for name, value in numbers.items() if not value.shape and value.dtype.kind in "fi"}
        values = numbers[metrics.OWN].tolist() if self.own_names else ()
        return {**single, **dict(zip(self.own_names, values, strict=True))}

    def read_only(self) -> "Record":
        """Return the record with arrays that cannot be changed: some of them are parts of the state."""
        return replace(self, arrays=readonly(self.arrays))


class Clock:
    """Measures the seconds of each phase of a generation."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        """Add the time since the last lap to a phase."""
        now = time.perf_counter()
        self.seconds[phase] = now - self._last
        self._last = now


def with_times(record: Record, digest: bytes, commit_seconds: float, ranks: Ranks) -> Record:
    """Return the record with the times of all ranks and the digest of the state."""
    evaluate = ranks.each(record.seconds["evaluate"])
    arrays = {
        **record.arrays,
        "state_sha256": np.array(digest.hex(), "S64"),
        **{f"seconds_{phase}": np.array(taken) for phase, taken in record.seconds.items()},
        "seconds_commit": np.array(commit_seconds),
        "seconds_evaluate_min": evaluate.min(),
        "seconds_evaluate_mean": evaluate.mean(),
        "seconds_evaluate_max": evaluate.max(),
        "slowest_rank": np.array(evaluate.argmax()),
        "seconds_clock": np.array(time.time()),
    }
    return replace(record, arrays=arrays)


def describe(config: Config, state: State, drawn: Draw, outcomes: Outcomes, ranks: Ranks) -> dict[str, NDArray[Any]]:
    """Return the arrays of a generation that was drawn from `state` and had these outcomes."""
    observation_mean, observation_std = state.observation_mean_std()
    settings = config.metric_settings()
    return {
        **state.learned,  # first: an array of the user's own population must not replace another one
        "learned": flat_learned(state.learned),
        "behavior": outcomes.behavior,
        **({} if outcomes.by_start is None else {"behavior_by_start": outcomes.by_start}),
        "fitness": outcomes.fitness,
        "length": outcomes.length,
        "valid": outcomes.valid,
        "offset": drawn.offset,
        "sign": drawn.sign,
        "parent": drawn.parent,
        "observation_sums": state.observations,
        "observation_count": state.observations[0],
        "observation_mean": observation_mean,
        "observation_std": observation_std,
        **metrics.logged(outcomes, settings, ranks),
        metrics.OWN: np.full(len(settings.own), np.nan),
    }


def uses_torch(config: Config) -> bool:
    """Return whether the bits depend on torch; a network of the user may be a torch module."""
    return config.method.uses_torch or bool(getattr(config.task, "policy", None))


def observed(config: Config, generation: int) -> NDArray[np.bool_]:
    """Return which individuals [N] of a generation feed the observation statistics."""
    share = config.task.observation_share if config.task.observation_dim else 0.0
    return stream(config.run.seed, "observe", generation).random(config.population.size) < share


def evaluates_mean(config: Config, generation: int) -> bool:
    """Return whether the unperturbed mean is evaluated in a generation."""
    every = config.run.evaluate_mean_every
    return every > 0 and generation % every == 0


def gather_sums(mine: Floats, ranks: Ranks) -> Floats:
    """Return the observation sums [sampled, 2 + 2 O] of all ranks, in the order of the index in front of each."""
    tagged = ranks.allgather(mine)
    observations: Floats = tagged[np.argsort(tagged[:, 0])]
    return observations[np.isfinite(observations).all(axis=1)]


def check_enough(outcomes: Outcomes, generation: int, saved: bool = True) -> None:
    """Raise on every rank if most rollouts of a generation are invalid; `saved`: there is a run file."""
    if 2 * outcomes.size < len(outcomes.valid) or outcomes.size < 2:
        said = invalid_rollouts(generation, outcomes.behavior, outcomes.fitness, outcomes.valid)
        earlier = f". The {generation} generations before it are saved" if saved and generation else ""
        raise collective(TaskError(f"{said}. No update can be made of the rest{earlier}"))


def invalid_rollouts(generation: int, behavior: Floats, fitness: Floats, valid: NDArray[np.bool_]) -> str:
    """Return a sentence on the invalid rollouts of a generation; it has the number that made the first one invalid."""
    first, count = int(valid.argmin()), len(valid) - int(valid.sum())
    numbers = {f"behavior[{place}]": value for place, value in enumerate(behavior[first].tolist())}
    wrong = [f"{name} is {value:g}" for name, value in numbers.items() if not abs(value) <= MAX_BEHAVIOR]
    wrong += [] if np.isfinite(fitness[first]) else [f"fitness is {fitness[first]:g}"]
    return (
        f"generation {generation}: {count} of {len(valid)} rollouts {'is' if count == 1 else 'are'} invalid, because a "
        f"number is not finite or beyond {MAX_BEHAVIOR:g}, or because the task says so. The first is individual "
        f"{first}: {wrong[0] if wrong else 'its task says so'}"
    )
