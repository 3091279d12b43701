"""Evaluators: `evaluate(work, wanted)` returns the outcomes of individuals on every rank.

On CPUs each rank evaluates individuals, or calls of several of them, and outcomes can be repeated bit by bit; `on_gpus`
has batches. Training, the check of determinism, `verify`, `replay`, studies and `adapt` differ in the work they bring.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Singles
from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, PluginError
from ees_mpi.generation import Found, Outcome, Outcomes, Work, gather, mean_outcome, pack, pack_sums
from ees_mpi.noise import Noise
from ees_mpi.ranks import Ranks
from ees_mpi.run.progress import Counter
from ees_mpi.strategy.populations.base import Population
from ees_mpi.terminal import say_on_stderr

Watch = Callable[[int], object]  # is called with the number of an individual that this rank has evaluated


class Evaluator(Protocol):
    """Evaluates individuals on all ranks together."""

    described: Mapping[str, str]  # the device, "cpu" or "cuda", as the session of a run file records it
    watch: Watch | None  # who shows progress

    def evaluate(self, work: Work, wanted: NDArray[np.int64] | None = None) -> Found:
        """Return the outcomes of the wanted individuals, or of all; raises Unfinished on every rank after a stop.

        wanted: rising numbers; those from N on are the unperturbed mean
        """

    def close(self) -> None:
        """Release the resources of this rank."""


@contextmanager
def counting(evaluator: Evaluator, ranks: Ranks, total: int, name: str, unit: str = "individual") -> Iterator[None]:
    """Show on rank 0 how many of `total` individuals an evaluator has done in a block.

    Individuals are handed out in order, so the number of one tells how many the ranks of this node have begun.
    """
    if not ranks.is_root:
        yield
        return
    scale = ranks.size / ranks.node_size  # the individuals of all nodes for each one of this node
    with Counter(total, unit, name) as counter:
        evaluator.watch = lambda index: counter.show(round(scale * (index + 1)))
        try:
            yield
        finally:
            evaluator.watch = None


class CpuEvaluator:
    """Evaluates on this rank's CPU, one individual after the other, or calls of several."""

    described: Mapping[str, str] = {"device": "cpu"}

    def __init__(self, config: Config, noise: Noise, ranks: Ranks, rollouts: Any = None):
        """Open the task, unless its rollouts are open already, in front of a camera for example."""
        self._task, self._population, self._noise, self._ranks = config.task, config.population, noise, ranks
        self._rollouts: Any = rollouts or config.task.open(config.run.seed)
        self._again = None if rollouts else partial(config.task.open, config.run.seed)
        self._errors: dict[int, str] = {}  # by the first individual of a call
        self.tells_errors = True  # until the first one is told
        self._start = self._first = config.task.start_seed(config.run.seed)  # of its next rollout
        self._in_calls = config.task.batch
        self.rows = int(getattr(self._rollouts, "rows", 1)) if self._in_calls else 1  # individuals of a call, at most
        self.watch: Watch | None = None
        if self._in_calls and config.task.starts == "own":
            shared = "the individuals of a call (task.batch) share their starts"
            raise ConfigError(f'task.starts = "own": {shared}; expected "common", "fixed" or no such key')

    def evaluate(self, work: Work, wanted: NDArray[np.int64] | None = None) -> Found:
        """Return the outcomes of the wanted individuals, or of all; see `Evaluator`."""
        start = time.perf_counter()
        wanted = np.arange(len(work.seeds)) if wanted is None else wanted
        mine: list[Outcome] = []
        calls = calls_of(wanted.tolist(), work.size, self.rows)
        for number in self._ranks.hand_out(range(len(calls))):
            call = calls[number]
            mine += self._outcomes(work, call)
            if self.watch:
                self.watch(call[-1])
        if self._in_calls:
            asked = frozenset(wanted.tolist())
            mine = [outcome for outcome in mine if outcome.index in asked]
        found_by_all = found_of(mine, wanted, work, self._task.behavior_dim, self._ranks, start)
        self._tell_error(wanted, found_by_all.outcomes)
        return found_by_all

    def _outcomes(self, work: Work, call: range) -> list[Outcome]:
        """Return the outcomes of the individuals of a call; invalid ones if the user's code raises an exception."""
        try:
            return self._call(work, call) if self._in_calls else [self._individual(work, call[0])]
        except PluginError as error:
            if self._task.on_error == "stop":
                raise
            self._errors[call[0]] = str(error)
        if self._again:  # what the exception has left behind must not show in later outcomes
            with suppress(PluginError):
                self._rollouts.close()
            self._rollouts, self._start = self._again(), self._first
        nothing = np.full((work.seeds.shape[1], self._task.behavior_dim), np.nan)
        several = nothing if len(nothing) > 1 else None
        return [
            Outcome(index, nothing[0].tolist(), np.nan, 0, valid=False, by_start=several, raised=True) for index in call
        ]

    def _tell_error(self, wanted: NDArray[np.int64], outcomes: Outcomes) -> None:
        """Print the first exception of the run, on the rank that has it."""
        if outcomes.raised and self.tells_errors:
            self.tells_errors, first = False, int(wanted[outcomes.raised[0]])
            if error := self._errors.get(first - first % self.rows):
                rest = 'task.on_error = "invalid": it counts as invalid, and so do further ones, without a word'
                say_on_stderr(f"ees-mpi: warning: {error}\n{rest}\n")
        self._errors.clear()

    def _individual(self, work: Work, index: int) -> Outcome:
        """Return the mean outcome of an individual's rollouts."""
        parameters, observe = parameters_of(work, index, self._population, self._noise), bool(work.observe[index])
        rollouts = []
        for seed in work.seeds[index].tolist():
            self._start_from(seed)
            rollouts.append(self._rollouts.evaluate(index, parameters, *work.statistics, observe))
        return mean_outcome(rollouts)

    def _call(self, work: Work, call: range) -> list[Outcome]:
        """Return the mean outcomes of the individuals of one call, which share their starts."""
        rows = np.stack([parameters_of(work, index, self._population, self._noise) for index in call])
        repeats = []
        for seed in work.seeds[call[0]].tolist():
            self._start_from(seed)
            repeats.append(self._rollouts.evaluate_rows(call, rows))
        return [mean_outcome(rollouts) for rollouts in zip(*repeats, strict=True)]

    def _start_from(self, seed: int) -> None:
        """Begin the next rollout at the start of a seed; a task without starts has one seed for all."""
        if seed != self._start:
            self._rollouts.reseed(seed)
            self._start = seed

    def close(self) -> None:
        self._rollouts.close()


def calls_of(wanted: Sequence[int], size: int, rows: int) -> list[range]:
    """Return the calls that evaluate these individuals, each with all of its rows; the mean is alone.

    The rows of a call are fixed by index, because the bits of one may depend on the others.
    """
    if rows == 1:
        return [range(index, index + 1) for index in wanted]
    firsts = dict.fromkeys(index if index >= size else index - index % rows for index in wanted)
    return [range(first, first + 1 if first >= size else min(first + rows, size)) for first in firsts]


def parameters_of(work: Work, index: int, population: Population, noise: Noise) -> Singles:
    """Return the parameters [D] of one individual; from number N on it is the mean."""
    if index >= work.size:
        return np.array(work.state.mean[0])
    return population.individual(work.state.learned, work.draw, index, noise)


def found_of(
    mine: Sequence[Outcome], wanted: NDArray[np.int64], work: Work, behavior_dim: int, ranks: Ranks, start: float
) -> Found:
    """Gather the outcomes of all ranks; `start`: when their evaluation began, for the times."""
    evaluated = time.perf_counter()
    rows = pack(mine, behavior_dim, work.seeds.shape[1])
    sums = pack_sums(mine, len(work.state.observations))
    outcomes, means = gather(rows, sums, wanted, work, ranks)
    seconds = {"evaluate": evaluated - start, "gather": time.perf_counter() - evaluated}
    return Found(outcomes, means, seconds)
