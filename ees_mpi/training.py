"""One generation of a run, and the loop over generations."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi import metrics
from ees_mpi.config import Config
from ees_mpi.errors import EesError, Interrupted, ObjectiveError, RanksLost, TaskError, collective
from ees_mpi.noise import Noise, NoiseTable
from ees_mpi.outcomes import FIXED, Draw, Floats, Outcome, Outcomes, pack, unpack, unpack_each
from ees_mpi.ranks import Ranks
from ees_mpi.state import Arrays, State
from ees_mpi.store.writer import RunWriter
from ees_mpi.streams import stream
from ees_mpi.tasks import Evaluator


class Unfinished(Exception):
    """A stop came in the middle of a generation; carries the outcomes that were done, the same on every rank."""

    def __init__(self, rows: NDArray[Any], observations: Floats):
        super().__init__(f"{len(rows)} outcomes")
        self.rows, self.observations = rows, observations


@dataclass(frozen=True)
class Job:
    """What a generation is made with."""

    config: Config
    evaluator: Evaluator
    noise: Noise
    ranks: Ranks

    @classmethod
    def open(cls, config: Config, ranks: Ranks) -> "Job":
        """Make what evaluates individuals on this rank, and the noise table."""
        with ranks.together():
            evaluator = config.task.open(config.run.seed)
        return cls(config, evaluator, NoiseTable(config.noise_seed, config.noise.size, ranks), ranks)

    def advance(self, state: State, known: Mapping[int, Any]) -> "tuple[Record, State]":
        """Evaluate one generation and return its record and the next state."""
        return advance(self, state, known)

    def remember(self, partial: Arrays) -> Mapping[int, Any]:
        """Read back what `Unfinished` carried, by index."""
        return unpack_each(partial["rows"], partial["observations"])

    def pool(self, done: Mapping[int, Any]) -> Mapping[int, Any]:
        """Return on every rank, by index, what any rank has done; several may have the same."""
        mine = list(done.values())
        rows = self.ranks.gather(pack(mine, self.config.task.behavior_dim))
        return unpack_each(rows, _gather_observations(self.config, self.ranks, mine))

    def close(self) -> None:
        """Let go of what the task holds."""
        self.evaluator.close()


@dataclass(frozen=True)
class Record:
    """One generation as it goes into the run file: its arrays by name, and this rank's seconds by phase."""

    generation: int
    arrays: Arrays
    seconds: Mapping[str, float]
    own: Mapping[int, Any] = field(default_factory=dict)  # this rank's, should others die before the commit


def draw(config: Config, noise: Noise | None, generation: int) -> Draw:
    """Return the draw of one generation: a function of seed and generation alone."""
    generator = stream(config.run.seed, "draw", generation)
    result: Draw = config.population.draw(generator, noise, config.task.parameters)
    return result


def advance(job: Job, state: State, known: Mapping[int, Outcome] | None = None) -> tuple[Record, State]:
    """Evaluate one generation and return its record and the next state; changes nothing in place.

    `known`: outcomes of this generation from before an interruption, by index, the same on every rank. Raises
    `Unfinished` on every rank where a stop comes before all others are evaluated.
    """
    known = known or {}
    mine = own_share(known, job.ranks)
    with keeping(state.generation, mine):
        return _advance(job, state, known, mine)


@contextmanager
def keeping(generation: int, mine: Mapping[int, Any]) -> Iterator[None]:
    """Where ranks are lost, let what this rank has be kept for the ranks that are left."""
    try:
        yield
    except RanksLost as lost:
        lost.generation, lost.done = generation, dict(mine)
        raise


def own_share(known: Mapping[int, Any], ranks: Ranks) -> dict[int, Any]:
    """Return the part of what all ranks know that this one gives to the gathers."""
    return {index: known[index] for index in sorted(known)[ranks.rank :: ranks.size]}


def _advance(job: Job, state: State, known: Mapping[int, Outcome], mine: dict[int, Outcome]) -> tuple[Record, State]:
    """Advance, noting in `mine` what this rank evaluates."""
    config, ranks = job.config, job.ranks
    clock = Clock()
    drawn = draw(config, job.noise, state.generation)
    _evaluate(job, state, drawn, known, mine)
    clock.lap("evaluate")
    outcomes, center = _gather(job, state.generation, list(mine.values()))
    clock.lap("gather")
    with _named(state.generation):
        weights, memory = config.objective.weights(outcomes, state.memory, ranks)
    gradient: Floats = config.population.gradient(weights, drawn, state.mean, job.noise, ranks)
    mean, moments = config.optimizer.step(state.mean, gradient, state.moments)
    following = State(
        generation=state.generation + 1,
        mean=mean,
        moments=moments,
        # Row by row, in index order: the sum must not depend on who sampled what.
        observations=sum(outcomes.observations, start=state.observations),
        memory=memory,
    )
    arrays = {
        **describe(config, state, drawn, outcomes, ranks),
        **center,
        "gradient_norm": np.sqrt(np.square(gradient).sum()),
    }
    clock.lap("update")
    return Record(state.generation, arrays, clock.seconds, mine), following


def describe(config: Config, state: State, drawn: Draw, outcomes: Outcomes, ranks: Ranks) -> dict[str, NDArray[Any]]:
    """Return what a run file holds of a generation that was drawn from a state and came to these outcomes."""
    observation_mean, observation_std = state.observation_mean_std()
    return {
        "behavior": outcomes.behavior,
        "fitness": outcomes.fitness,
        "length": outcomes.length,
        "valid": outcomes.valid,
        "offset": drawn.offset,
        "sign": drawn.sign,
        "parent": drawn.parent,
        "mean": state.mean,
        "observation_count": state.observations[0],
        "observation_mean": observation_mean,
        "observation_std": observation_std,
        **metrics.summary(outcomes, getattr(config.objective, "bandwidth", 1.0), ranks),
    }


@contextmanager
def _named(generation: int) -> Iterator[None]:
    """Let an objective's error say in which generation it was met."""
    try:
        yield
    except ObjectiveError as error:
        named = ObjectiveError(f"generation {generation}: {error}. The last committed generation is safe")
        named.collective = error.collective
        raise named from error


def _evaluate(job: Job, state: State, drawn: Draw, known: Mapping[int, Outcome], mine: dict[int, Outcome]) -> None:
    """Evaluate this rank's individuals into `mine`; index N is the unperturbed mean, where it is asked for."""
    config, population = job.config, job.config.population
    observation_mean, observation_std = state.observation_mean_std()
    sampled = observed(config, state.generation)
    total = population.size + evaluates_mean(config, state.generation)
    missing = [index for index in range(total) if index not in known] if known else range(total)
    for index in job.ranks.deal(missing, state.generation):
        if index < population.size:
            parameters = population.individual(state.mean, drawn, index, job.noise)
            observe = bool(sampled[index])
        else:
            parameters, observe = state.mean[0].copy(), False
        mine[index] = job.evaluator.evaluate(index, parameters, observation_mean, observation_std, observe)


def observed(config: Config, generation: int) -> NDArray[np.bool_]:
    """Return which individuals [N] of a generation feed the observation statistics."""
    size = config.population.size
    if config.task.observation_dim == 0:
        return np.zeros(size, np.bool_)
    share: float = config.task.observation_share
    sampled: NDArray[np.bool_] = stream(config.run.seed, "observe", generation).random(size) < share
    return sampled


def evaluates_mean(config: Config, generation: int) -> bool:
    """Tell whether the unperturbed mean is evaluated in a generation."""
    every = config.run.evaluate_mean_every
    return every > 0 and generation % every == 0


def _gather(job: Job, generation: int, mine: list[Outcome]) -> tuple[Outcomes, Arrays]:
    """Bring all outcomes together on every rank, in index order, and the unperturbed mean's apart."""
    config, ranks = job.config, job.ranks
    size, dim = config.population.size, config.task.behavior_dim
    total = size + evaluates_mean(config, generation)
    index = np.array([outcome.index for outcome in mine], np.int64)
    rows = ranks.gather_by_index(index, pack(mine, dim), total)
    observations = _gather_observations(config, ranks, mine)
    if len(rows) < total:
        raise Unfinished(rows, observations)
    observations = observations[:, 1:]
    outcomes = unpack(rows[:size], observations)
    check_enough(outcomes, generation)
    center = rows[size] if total > size else np.full(FIXED + dim, np.nan)
    return outcomes, {"mean_fitness": center[3], "mean_behavior": center[FIXED:]}


def check_enough(outcomes: Outcomes, generation: int) -> None:
    """Refuse to make an update of a generation of which most is not finite; on every rank."""
    size = len(outcomes.valid)
    if 2 * outcomes.size < size or outcomes.size < 2:
        raise collective(
            TaskError(
                f"generation {generation}: {size - outcomes.size} of {size} rollouts are not finite; "
                "no update can be made of the rest. The last committed generation is safe"
            )
        )


def _gather_observations(config: Config, ranks: Ranks, mine: Sequence[Outcome]) -> Floats:
    """Bring the observation sums of the sampled rollouts together, each tagged with its index, in index order."""
    width = 1 + 2 * config.task.observation_dim
    if not config.task.observation_dim:
        return np.zeros((0, 1 + width))
    sampled = [(each.index, *each.observations) for each in mine if each.observations is not None and each.valid]
    tagged = ranks.gather(np.array(sampled, np.float64).reshape(len(sampled), 1 + width))
    observations: Floats = tagged[np.argsort(tagged[:, 0])]
    return observations[np.isfinite(observations).all(axis=1)]


class Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        """Book the time since the last lap under a phase."""
        now = time.perf_counter()
        self.seconds[phase] = now - self._last
        self._last = now


def train(
    job: Any,
    state: State,
    writer: RunWriter | None,
    report: Callable[[Record], None] = lambda record: None,
    known: dict[int, Any] | None = None,
) -> State:
    """Advance until the configured generation, committing each; `writer`: on rank 0 only; `job`: has `Job`'s face."""
    ranks = job.ranks
    commit_seconds = 0.0
    while state.generation < job.config.run.generations:
        try:
            record, following = job.advance(state, known or {})
        except Unfinished as unfinished:
            with ranks.together():
                if writer:
                    writer.save_partial(state.generation, unfinished.rows, unfinished.observations)
            raise _interrupted(ranks, state, f" and {len(unfinished.rows)} rollouts of the next") from None
        if known:
            known.clear()  # whoever else holds it needs it no more
        if not np.isfinite(following.mean).all():
            raise collective(
                TaskError(f"the update of generation {state.generation} is not finite; it was not committed")
            )
        with keeping(state.generation, record.own):
            digest = following.digest()
            ranks.check_same(digest, f"the state after generation {state.generation}")
            record = with_times(record, digest, commit_seconds, ranks)
            start = time.perf_counter()
            with ranks.together():
                if writer:
                    writer.commit(record.generation, record.arrays, following.arrays())
            commit_seconds = time.perf_counter() - start
        state = following
        report(record)
        if ranks.any(ranks.stopping()) and state.generation < job.config.run.generations:
            raise _interrupted(ranks, state)
    return state


def _interrupted(ranks: Ranks, state: State, more: str = "") -> EesError:
    by = ranks.stop_signal or "another rank's signal"
    return collective(
        Interrupted(f"interrupted by {by}; {state.generation} generations{more} are saved, and resume will go on")
    )


def with_times(record: Record, digest: bytes, commit_seconds: float, ranks: Ranks) -> Record:
    """Add what all ranks took for the generation, and the state's digest, to its record."""
    evaluate = ranks.gather(np.array([record.seconds["evaluate"]]), counts=[1] * ranks.size)
    arrays = {
        **record.arrays,
        "state_sha256": np.array(digest.hex(), "S64"),
        **{f"seconds_{phase}": np.array(taken) for phase, taken in record.seconds.items()},
        "seconds_commit": np.array(commit_seconds),
        "seconds_evaluate_min": evaluate.min(),
        "seconds_evaluate_mean": evaluate.mean(),
        "seconds_evaluate_max": evaluate.max(),
        "seconds_slowest_rank": np.array(evaluate.argmax()),
        "seconds_clock": np.array(time.time()),
    }
    return replace(record, arrays=arrays)
