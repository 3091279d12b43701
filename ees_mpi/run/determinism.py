"""The check before a new run that the user's own code is deterministic: the same individuals give the same outcomes.

At most four individuals of the first generation are evaluated twice. The second time another evaluator evaluates them,
in the opposite order and, if there are several, on other ranks. So a clock, random numbers without a seed, global state
and state that a rollout leaves behind are found.
"""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np

from ees_mpi.arrays import Floats
from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, before_rollouts, collective, located
from ees_mpi.generation import NOBODY, Outcomes, Work
from ees_mpi.noise import Noise
from ees_mpi.ranks import Ranks
from ees_mpi.run.evaluators import CpuEvaluator

INDIVIDUALS = 4
SECONDS = 30.0  # after which a rank begins no further rollout of the first time


@before_rollouts()
def check_deterministic(config: Config, work: Work, ranks: Ranks) -> None:
    """Raise a ConfigError on all ranks if the user's code gives other outcomes the second time."""
    seen = np.full(len(work.seeds), config.task.observation_dim > 0)
    work = replace(work, seeds=work.seeds[:, :1], observe=seen)  # one start of each tells enough
    if not config.population.has_individuals:  # the mean, in place of individuals
        work = replace(work, draw=NOBODY)
    count, size = min(INDIVIDUALS, len(work.draw.offset) or 1), ranks.size
    first = _evaluate(config, work, range(ranks.rank, count, size), ranks, time.monotonic() + SECONDS)
    again = [index for index in first if (index + size // 2) % size == ranks.rank]
    second = _evaluate(config, work, again[::-1], ranks)
    for index in sorted(second):
        if difference := _difference(first[index], second[index], config.task.behavior_dim):
            raise collective(
                ConfigError(
                    f"{config.task.own_code}: it is not deterministic: individual {index} was evaluated twice, and "
                    f"{difference}. A rollout must depend on its arguments and on the seed only: no clock, no "
                    "np.random without a seed, nothing left from earlier rollouts. To train all the same: "
                    "task.deterministic = false (`ees-mpi docs plugins`)"
                )
            )


def _evaluate(
    config: Config, work: Work, mine: Sequence[int], ranks: Ranks, until: float = float("inf")
) -> dict[int, Floats]:
    """Evaluate this rank's individuals in a new evaluator; return the rows of all ranks on every rank, by index."""
    rows, noise, alone = [], Noise(config.noise_seed, config.noise.size), Ranks()
    where = located(f"generation {work.state.generation}")
    with ranks.together(), where, closing(CpuEvaluator(config, noise, alone)) as evaluator:
        evaluator.tells_errors = False  # training tells them
        for index in mine:
            if ranks.stopping() or time.monotonic() > until:
                break
            found = evaluator.evaluate(work, np.array([index]))
            rows.append([index, *_row(found.outcomes if work.size else found.means, len(work.state.observations))])
    width = 4 + config.task.behavior_dim + len(work.state.observations)
    return {int(row[0]): row[1:] for row in ranks.allgather(np.array(rows, np.float64).reshape(len(rows), width))}


def _row(one: Outcomes, sums: int) -> list[float]:
    seen = one.observations[0] if len(one.observations) else np.zeros(sums)
    return [*one.valid, *one.length, *one.fitness, *one.behavior[0], *seen]


def _difference(one: Floats, other: Floats, behavior_dim: int) -> str:
    """Return what differs first between two rows of the same individual; empty: nothing."""
    end = 3 + behavior_dim
    parts = {"behaviour": range(3, end), "fitness": [2], "length": [1], "validity": [0]}
    for name, places in {**parts, "observation sums": range(end, len(one))}.items():
        for number, place in enumerate(places):
            if one[place].tobytes() != other[place].tobytes():
                which = f"number {number} of its {name}" if len(places) > 1 else f"its {name}"
                return f"{which} is {one[place].item()!r} and then {other[place].item()!r}"
    return ""
