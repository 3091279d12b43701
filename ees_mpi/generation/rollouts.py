"""The rollouts of an individual: one, or `task.rollouts` = K, of which the outcome is the mean.

With K > 1 each rollout has its own seed, which depends on the seed of the task, the generation, the individual and the
number of the rollout only. The individuals of one call of a RowsRollouts share the seeds of the first of them. The key
`task.starts` says which individuals and generations share their seeds.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ees_mpi.config import Config
from ees_mpi.errors import TaskError
from ees_mpi.noise import stream
from ees_mpi.outcomes import Floats, Outcome, Singles
from ees_mpi.tasks.rollouts import Rollouts, RowsRollouts

Statistics = tuple[Floats, Floats]  # mean and standard deviation of the observations


def outcome_of(
    evaluator: Rollouts,
    config: Config,
    generation: int,
    index: int,
    parameters: Singles,
    statistics: Statistics,
    observe: bool,
) -> Outcome:
    """Return the mean outcome of an individual's rollouts. Index N is the unperturbed mean."""
    seeds = seeded(evaluator, config, generation, index)
    return mean_outcome([evaluator.evaluate(index, parameters, *statistics, observe) for _ in seeds])


def outcomes_of_call(
    evaluator: RowsRollouts, config: Config, generation: int, call: range, parameters: Singles
) -> list[Outcome]:
    """Return the outcomes of the individuals [n, D] of one call."""
    repeats = [evaluator.evaluate_rows(call, parameters) for _ in seeded(evaluator, config, generation, call[0])]
    return [mean_outcome(rollouts) for rollouts in zip(*repeats, strict=True)]


def seeded(evaluator: Any, config: Config, generation: int, index: int) -> Iterator[None]:
    """Set the seed of each rollout of an individual, one after the other."""
    if has_one_start(config):
        yield
        return
    for seed in start_seeds(config, generation, index):
        evaluator.reseed(seed)
        yield


def has_one_start(config: Config) -> bool:
    """Return whether all rollouts of a run have one start, that of the task."""
    return config.task.rollouts == 1 and config.task.starts in (None, "fixed")


def start_seeds(config: Config, generation: int, index: int) -> list[int]:
    """Return the seed of each rollout of an individual; number N is the unperturbed mean."""
    task, counter = config.task, max(generation, 0)
    seed, count = task.start_seed(config.run.seed), task.rollouts
    if has_one_start(config):
        return [seed]
    if task.starts == "fixed":
        return [seed, *_seeds(seed, "fixed starts", 0, 1, count)[0][1:]]
    if task.starts == "common":
        return _seeds(seed, "common starts", counter, 1, count)[0]
    if task.starts == "own":  # a pair shares its starts, so that its two outcomes differ by the mutation only
        row = index // 2 if config.population.antithetic else index
        return _seeds(seed, "own starts", counter, config.population.size + 1, count)[row]
    return _seeds(seed, f"rollouts/{index}", counter, 1, count)[0]


@lru_cache(maxsize=4)
def _seeds(seed: int, purpose: str, counter: int, rows: int, count: int) -> list[list[int]]:
    """Draw seeds as one vector, for all individuals of a generation."""
    return stream(seed, purpose, counter).integers(2**31, size=(rows, count)).tolist()


def mean_behavior(by_start: Floats) -> Floats:
    """Return the mean [..., B] of behaviours [..., K, B] over the starts."""
    with np.errstate(invalid="ignore"):
        mean: Floats = np.mean(by_start, axis=-2)
    return mean


def mean_outcome(rollouts: Sequence[Outcome]) -> Outcome:
    """Return the mean of rollouts; the length is the sum, and one invalid rollout makes the outcome invalid."""
    first = rollouts[0]
    if len(rollouts) == 1:
        return first
    if len(sizes := {len(rollout.behavior) for rollout in rollouts}) > 1:
        raise TaskError(f"individual {first.index}: expected behaviours of one length, got {sorted(sizes)} numbers")
    by_start = np.array([rollout.behavior for rollout in rollouts], np.float64)
    behavior = mean_behavior(by_start)
    with np.errstate(invalid="ignore"):
        fitness = np.mean([rollout.fitness for rollout in rollouts])
    sums = [rollout.observations for rollout in rollouts if rollout.observations is not None]
    return Outcome(
        first.index,
        tuple(behavior.tolist()),
        float(fitness),
        sum(rollout.length for rollout in rollouts),
        all(rollout.valid for rollout in rollouts),
        np.sum(sums, axis=0) if len(sums) == len(rollouts) else None,
        by_start,
    )
