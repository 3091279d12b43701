"""The rollouts of an individual: one, or `task.rollouts` = K, of which the outcome is the mean.

With K > 1 each rollout has its own seed, which depends on the seed of the task, the generation, the individual and the
number of the rollout only. The individuals of one call of a RowsEvaluator share the seeds of the first of them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ees_mpi.config import Config, EsMaml
from ees_mpi.contracts import Evaluator, RowsEvaluator
from ees_mpi.errors import TaskError
from ees_mpi.generation.climbing import climb, directions
from ees_mpi.noise import stream
from ees_mpi.outcomes import Floats, Outcome, Singles

Statistics = tuple[Floats, Floats]  # mean and standard deviation of the observations


def outcome_of(
    evaluator: Evaluator,
    config: Config,
    generation: int,
    index: int,
    parameters: Singles,
    statistics: Statistics,
    observe: bool,
) -> Outcome:
    """Return the outcome of one individual; with ES-MAML, after its adaptation. Index N is the unperturbed mean."""

    def evaluate(parameters: Singles) -> Outcome:
        seeds = seeded(evaluator, config, generation, index)
        return _mean([evaluator.evaluate(index, parameters, *statistics, observe) for _ in seeds])

    method, population, moment = config.method, config.population, max(generation, 0)
    if not isinstance(method, EsMaml) or index == population.size:
        return evaluate(parameters)
    sign = directions(config.run.seed, moment, population.size, population.antithetic)[index]
    generator = stream(config.run.seed, f"climb/{index}", moment)
    return climb(evaluate, int(sign), parameters, method.climbing, generator)[1]


def outcomes_of_call(
    evaluator: RowsEvaluator, config: Config, generation: int, call: range, parameters: Singles
) -> list[Outcome]:
    """Return the outcomes of the individuals [n, D] of one call."""
    repeats = [evaluator.evaluate_rows(call, parameters) for _ in seeded(evaluator, config, generation, call[0])]
    return [_mean(rollouts) for rollouts in zip(*repeats, strict=True)]


def seeded(evaluator: Any, config: Config, generation: int, index: int) -> Iterator[None]:
    """Set the seed of each rollout of an individual, one after the other; one rollout alone has the task's seed."""
    count = config.task.rollouts
    if count == 1:
        yield
        return
    seed = config.task.start_seed(config.run.seed)
    for rollout_seed in stream(seed, f"rollouts/{index}", max(generation, 0)).integers(2**31, size=count).tolist():
        evaluator.reseed(rollout_seed)
        yield


def _mean(rollouts: Sequence[Outcome]) -> Outcome:
    """Return the mean of rollouts; the length is the sum, and one invalid rollout makes the outcome invalid."""
    first = rollouts[0]
    if len(rollouts) == 1:
        return first
    if len(sizes := {len(rollout.behavior) for rollout in rollouts}) > 1:
        raise TaskError(f"individual {first.index}: expected behaviors of one length, got {sorted(sizes)} numbers")
    with np.errstate(invalid="ignore"):
        behavior = np.mean([rollout.behavior for rollout in rollouts], axis=0)
        fitness = np.mean([rollout.fitness for rollout in rollouts])
    sums = [rollout.observations for rollout in rollouts if rollout.observations is not None]
    return Outcome(
        first.index,
        tuple(behavior.tolist()),
        float(fitness),
        sum(rollout.length for rollout in rollouts),
        all(rollout.valid for rollout in rollouts),
        np.sum(sums, axis=0) if len(sums) == len(rollouts) else None,
    )
