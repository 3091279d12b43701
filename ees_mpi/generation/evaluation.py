"""The evaluation of individuals on all ranks: one by one on CPUs, or in batches on GPUs.

On CPUs every rank evaluates individuals, and outcomes can be repeated bit by bit. With GPUs, one rank drives each GPU
and evaluates batches; the other ranks share the update only. Outcomes of the paper's robots can be repeated on the same
kind of GPU (`Task.repeats_on_gpu`); those of other robots on a GPU happen once and are logged.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, before_rollouts
from ees_mpi.generation import rollouts
from ees_mpi.generation.rollouts import Statistics
from ees_mpi.noise import Noise
from ees_mpi.outcomes import Arrays, Batch, Draw, Outcome, Singles
from ees_mpi.ranks import Ranks, gpus
from ees_mpi.tasks.base import Task
from ees_mpi.tasks.rollouts import BatchRollouts, Rollouts, RowsRollouts, Say
from ees_mpi.terminal import say

Robots = TypeVar("Robots")


@dataclass(frozen=True)
class Work:
    """The individuals of a generation: how they are made, and which of them feed the observation statistics."""

    learned: Arrays
    draw: Draw
    statistics: Statistics
    observe: NDArray[np.bool_]  # [N]


class Evaluation:
    """Evaluates the individuals of a config. All methods except `close` are called on all ranks together."""

    def __init__(self, config: Config, noise: Noise, ranks: Ranks, device: str | None = None):
        """Open the task; `device`: "cpu" or "cuda" instead of the config's."""
        self.config, self.noise, self.ranks = config, noise, ranks
        self._evaluator: Rollouts | None = None
        self._batches: BatchRollouts | None = None
        self.device, self._drivers = choose_device(config, ranks, device or config.task.device or "cpu")
        self.described = gpus.describe(ranks, self._drivers)
        with ranks.together(), before_rollouts():
            if self.device == "cpu":
                self._evaluator = config.task.open(config.run.seed)
                if self.rows > 1 and config.task.starts == "own":
                    shared = "the individuals of a call (task.batch) share their starts"
                    raise ConfigError(f'task.starts = "own": {shared}; expected "common", "fixed" or no such key')
            else:
                self._batches = opened_on_gpu(ranks, self._drivers, self._open_batches)

    def _open_batches(self, say: Say) -> BatchRollouts:
        population, table = self.config.population, self.noise.row(0, self.noise.size)
        wanted = -(-population.size // len(self._drivers)) * self.config.task.rollouts
        return self.config.task.open_batches(self.config.run.seed, table, wanted, population.antithetic, say)

    def run(self, work: Work, missing: Sequence[int], into: dict[int, Outcome], generation: int = -1) -> None:
        """Evaluate this rank's share of the missing individuals into a dict, by index.

        Index N is the unperturbed mean. A stop request ends the evaluation early.
        """
        evaluator = self._evaluator
        if evaluator is None:
            self._run_batches(missing, partial(self._batch, work, generation), work.statistics, into)
        elif isinstance(evaluator, RowsRollouts):
            self._run_rows(evaluator, work, missing, into, generation)
        else:
            for index in self.ranks.hand_out(missing):
                observe = index < self.config.population.size and bool(work.observe[index])
                numbers = (generation, index, self._parameters(work, index))
                into[index] = rollouts.outcome_of(evaluator, self.config, *numbers, work.statistics, observe)

    @property
    def rows(self) -> int:
        """The individuals that one call evaluates on a CPU, at most."""
        return self._evaluator.rows if isinstance(self._evaluator, RowsRollouts) else 1

    def _parameters(self, work: Work, index: int) -> Singles:
        if index == self.config.population.size:
            return np.array(work.learned["mean"][0])
        return self.config.population.individual(work.learned, work.draw, index, self.noise)

    def _run_rows(
        self, evaluator: RowsRollouts, work: Work, missing: Sequence[int], into: dict[int, Outcome], generation: int
    ) -> None:
        """Evaluate whole calls: those with a missing individual, with all of their rows."""
        wanted = frozenset(missing)
        calls = {call[0]: call for index in missing for call in [call_of(index, evaluator.rows, self.config)]}
        for first in self.ranks.hand_out(list(calls)):
            rows = np.stack([self._parameters(work, index) for index in calls[first]])
            for outcome in rollouts.outcomes_of_call(evaluator, self.config, generation, calls[first], rows):
                if outcome.index in wanted:
                    into[outcome.index] = outcome

    def _run_batches(
        self,
        missing: Sequence[int],
        batch: Callable[[NDArray[np.int64]], Batch],
        statistics: Statistics,
        into: dict[int, Outcome],
    ) -> None:
        if self._batches is None:  # this rank drives no GPU
            return
        capacity = max(1, self._batches.capacity // self.config.task.rollouts)
        for part in self.ranks.hand_out_batches(missing, sorted(self._drivers), capacity):
            outcomes = self._batches.evaluate_batch(batch(np.array(part)), *statistics)
            for number, index in enumerate(part):
                into[index] = rollouts.mean_outcome(outcomes[number :: len(part)])

    def _batch(self, work: Work, generation: int, index: NDArray[np.int64]) -> Batch:
        """Describe some individuals for a GPU: all from their first start, then all from the next one, and so on.

        The unperturbed mean has sign 0.
        """
        draw, population, seeds = work.draw, self.config.population, None
        if not rollouts.has_one_start(self.config):
            starts = [rollouts.start_seeds(self.config, generation, one) for one in index.tolist()]
            seeds = np.array(starts, np.int64).T.ravel()
            index = np.tile(index, self.config.task.rollouts)
        perturbed = index < population.size
        place = np.where(perturbed, index, 0)
        return Batch(
            index,
            work.learned["mean"],
            population.std,
            np.where(perturbed, draw.offset[place], 0),
            np.where(perturbed, draw.sign[place], 0).astype(np.int8),
            np.where(perturbed, draw.parent[place], 0).astype(np.int32),
            perturbed & work.observe[place],
            seeds,
            stds=np.asarray(population.stds(work.learned)) if population.learns_std else None,
        )

    def from_starts(
        self, parameters: Singles, seeds: Sequence[int], statistics: Statistics, into: dict[int, Outcome]
    ) -> None:
        """Evaluate the same parameters from several starts on GPUs, into a dict of this rank, by number."""

        def batch(index: NDArray[np.int64]) -> Batch:
            nothing = np.zeros(len(index))
            same = (nothing.astype(np.int64), nothing.astype(np.int8), nothing.astype(np.int32), nothing > 0)
            return Batch(index, parameters[None], 0.0, *same, np.array(seeds, np.int64)[index])

        self._run_batches(range(len(seeds)), batch, statistics, into)

    def close(self) -> None:
        """Release the resources of the task, on this rank."""
        for evaluator in (self._evaluator, self._batches):
            if evaluator is not None:
                evaluator.close()
        self._evaluator = self._batches = None


def call_of(index: int, rows: int, config: Config) -> range:
    """Return the individuals that a RowsRollouts evaluates in the same call as one of them; the mean is alone."""
    size = config.population.size
    first = index if index == size else index - index % rows
    return range(first, index + 1 if index == size else min(first + rows, size))


def from_starts(
    ranks: Ranks,
    task: Task,
    parameters: Singles,
    seeds: Sequence[int],
    statistics: Statistics,
    into: dict[int, Outcome],
) -> None:
    """Evaluate the same parameters from several starts on CPUs, into a dict of this rank."""
    for number in ranks.hand_out(range(len(seeds))):
        evaluator = task.starting_with(seeds[number]).open(0)
        into[number] = evaluator.evaluate(number, parameters, *statistics, False)
        evaluator.close()


def choose_device(config: Config, ranks: Ranks, wanted: str) -> tuple[str, dict[int, str]]:
    """Return "cpu" or "cuda", the same on every rank, and which rank drives which GPU.

    "auto" is "cuda" if a rank sees a GPU and every rank that drives one has the packages for it.
    """
    if wanted == "cpu":
        return "cpu", {}
    drivers = gpus.assign(ranks)
    problem = _problem(config, drivers)
    if not problem and ranks.rank in drivers:
        problem = config.task.lacks_for_gpu()
    if wanted == "auto":
        return ("cpu", {}) if ranks.any(bool(problem)) else ("cuda", drivers)
    with ranks.together():
        if problem:
            raise ConfigError(f'task.device = "cuda": {problem}; use task.device = "cpu"')
    return "cuda", drivers


def opened_on_gpu(ranks: Ranks, drivers: Mapping[int, str], opened: Callable[[Say], Robots]) -> Robots | None:
    """Return the robots of the GPU that this rank drives, seen as number 0 from now on; None: it drives none."""
    if ranks.rank not in drivers:
        return None
    os.environ["CUDA_VISIBLE_DEVICES"] = drivers[ranks.rank]  # before CUDA starts
    return opened(say)


def _problem(config: Config, drivers: dict[int, str]) -> str:
    if not config.population.isotropic and not config.population.learns_std:
        return f"GPUs evaluate individuals mean + sign * std * noise only, not those of {config.population_name}"
    if config.task.rollouts > 1 and not config.task.starts:
        return "GPUs evaluate one rollout of an individual, and task.rollouts is larger"
    return "" if drivers else gpus.none_seen()
