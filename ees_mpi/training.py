"""One generation of a run, and the loop over generations.

`EvolutionJob.advance` is one generation of an evolution strategy. `train` calls it until the run is complete, and
commits every generation. `docs/internals.md` names all functions that a generation passes through.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ees_mpi.config import Config
from ees_mpi.errors import EesError, Interrupted, TaskError, collective, located
from ees_mpi.generation import results
from ees_mpi.generation.evaluation import Evaluation, Work
from ees_mpi.generation.packing import LEADING, pack, unpack
from ees_mpi.generation.results import Clock, Record, Unfinished
from ees_mpi.generation.state import State
from ees_mpi.outcomes import Arrays, Draw, Floats, Outcome, Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.store.writer import Writer
from ees_mpi.update import Update


@dataclass
class EvolutionJob:
    """A run of an evolution strategy on this rank: its evaluation and its update."""

    config: Config
    evaluation: Evaluation
    update: Update
    ranks: Ranks
    outcomes: dict[int, Outcome] = field(default_factory=dict)  # for those of the next generation: it may count them

    def advance(self, state: State) -> tuple[Record, State]:
        """Evaluate one generation; return its record and the next state. Nothing is changed in place.

        Raises `Unfinished` on every rank if a stop request comes before all individuals are evaluated.
        """
        clock = Clock()
        drawn = self.update.ask(state)
        mine = self._evaluate(state, drawn)
        clock.lap("evaluate")
        outcomes, center = self._gather(state.generation, mine)
        clock.lap("gather")
        following, logged = self.update.tell(state, drawn, outcomes, self.ranks)
        arrays = {**results.describe(self.config, state, drawn, outcomes, self.ranks), **center, **logged}
        clock.lap("update")
        record = Record(state.generation, arrays, clock.seconds, own_names=self.config.metric_settings().own_names)
        return record, following

    def _evaluate(self, state: State, drawn: Draw) -> list[Outcome]:
        """Return the outcomes of this rank's individuals; index N is the unperturbed mean, if it is evaluated."""
        sampled = results.observed(self.config, state.generation)
        total = self.config.population.size + results.evaluates_mean(self.config, state.generation)
        mine, self.outcomes = self.outcomes, {}
        work = Work(state.learned, drawn, state.observation_mean_std(), sampled)
        self.evaluation.run(work, range(total), mine, state.generation)
        return list(mine.values())

    def _gather(self, generation: int, mine: list[Outcome]) -> tuple[Outcomes, Arrays]:
        """Return all outcomes on every rank, in index order, and the outcome of the unperturbed mean."""
        task, size = self.config.task, self.config.population.size
        dim = task.behavior_dim
        total = size + results.evaluates_mean(self.config, generation)
        index = np.array([outcome.index for outcome in mine], np.int64)
        rows = self.ranks.allgather_by_index(index, pack(mine, dim, task.rollouts), total)
        if len(rows) < total:
            raise Unfinished
        observations = self._gather_observations(mine)
        outcomes = unpack(rows[:size], observations[:, 1:], task.rollouts, task.common_starts)
        results.check_enough(outcomes, generation)
        center = rows[size] if total > size else np.full(LEADING + dim, np.nan)
        return outcomes, {"fitness_of_mean": center[3], "behavior_of_mean": center[LEADING : LEADING + dim]}

    def _gather_observations(self, mine: Sequence[Outcome]) -> Floats:
        """Return the observation sums of all sampled rollouts, each with its index in front, in index order."""
        width = 1 + 2 * self.config.task.observation_dim
        if width == 1:
            return np.zeros((0, 1 + width))
        sampled = [(one.index, *one.observations) for one in mine if one.observations is not None and one.valid]
        return results.gather_sums(np.array(sampled, np.float64).reshape(len(sampled), 1 + width), self.ranks)

    @classmethod
    def open(cls, config: Config, ranks: Ranks) -> "EvolutionJob":
        """Open the task on this rank, and fill the noise table together with the other ranks of the node."""
        update = Update.open(config, ranks)
        return cls(config, Evaluation(config, update.noise, ranks), update, ranks)

    @property
    def described(self) -> dict[str, str]:
        return self.evaluation.described

    def close(self) -> None:
        self.evaluation.close()


class Job(Protocol):
    """A run on this rank, of any method. `open_job` makes it."""

    config: Config
    ranks: Ranks

    @property
    def described(self) -> dict[str, str]: ...  # the device, "cpu" or "cuda", as the session of a run file records it

    def advance(self, state: State) -> tuple[Record, State]:
        """Evaluate one generation; return its record and the next state."""

    def close(self) -> None:
        """Release the resources of the task."""


def open_job(config: Config, ranks: Ranks) -> Job:
    """Open the job of the config's method."""
    if config.method.name == "maml":
        from ees_mpi.maml.training import MamlJob  # imports torch

        return MamlJob.open(config, ranks)
    return EvolutionJob.open(config, ranks)


def train(
    job: Job, state: State, writer: Writer | None, report: Callable[[Record], None] = lambda record: None
) -> State:
    """Advance until the last generation of the config, and commit each; `writer`: on rank 0 only."""
    ranks, commit_seconds = job.ranks, 0.0
    while state.generation < job.config.run.generations:
        try:
            with located(f"generation {state.generation}"):
                record, following = job.advance(state)
        except Unfinished:
            raise _interrupted(ranks, state) from None
        record, commit_seconds = commit(ranks, writer, record, following, commit_seconds)
        state = following
        report(record)
        if ranks.any(ranks.stopping()) and state.generation < job.config.run.generations:
            raise _interrupted(ranks, state)
    return state


def commit(
    ranks: Ranks, writer: Writer | None, record: Record, following: State, commit_seconds: float
) -> tuple[Record, float]:
    """Compare the next state on all ranks, and commit the generation; `writer`: on rank 0, if there is a file.

    Return the record with all times, and the seconds of this commit; `commit_seconds`: those of the one before.
    """
    digest = following.digest()
    ranks.check_same(digest, f"the state after generation {record.generation}")
    if not all(np.isfinite(array).all() for array in following.learned.values()):
        raise collective(
            TaskError(
                f"the update of generation {record.generation} is not finite, and was not committed; optimizer.lr may "
                "be too large, or population.std too small"
            )
        )
    record = results.with_times(record, digest, commit_seconds, ranks)
    start = time.perf_counter()
    with ranks.together():
        if writer:
            writer.append(record.arrays, following.arrays())
    return record, time.perf_counter() - start


def _interrupted(ranks: Ranks, state: State) -> EesError:
    by = ranks.stopped_by or "another rank's signal"
    return collective(Interrupted(f"interrupted by {by}; {state.generation} generations are saved"))
