"""The check before a new run that the user's own code is deterministic: the same individuals give the same outcomes.

At most four individuals of the first generation are evaluated twice. The second time another evaluator evaluates them,
in the opposite order and, if there are several, on other ranks. So a clock, random numbers without a seed, global state
and state that a rollout leaves behind are found.
"""

import time
from collections.abc import Sequence
from contextlib import closing

import numpy as np

from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, before_rollouts, collective, located
from ees_mpi.generation.packing import LEADING, pack
from ees_mpi.generation.rollouts import seeded
from ees_mpi.generation.state import State
from ees_mpi.noise import Noise, stream
from ees_mpi.outcomes import Floats, Singles
from ees_mpi.ranks import Ranks

INDIVIDUALS = 4
SECONDS = 30.0  # after which a rank begins no further rollout of the first time


@before_rollouts()
def check_deterministic(config: Config, state: State, ranks: Ranks) -> None:
    """Raise a ConfigError on all ranks if the user's code gives other outcomes the second time."""
    if not config.task.own_code or not config.task.deterministic:
        return
    people, size = _individuals(config, state), ranks.size
    first = _evaluate(config, state, people, range(ranks.rank, len(people), size), ranks, time.monotonic() + SECONDS)
    again = [index for index in first if (index + size // 2) % size == ranks.rank]
    second = _evaluate(config, state, people, again[::-1], ranks)
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


def _individuals(config: Config, state: State) -> list[Singles]:
    """Return the first individuals of the first generation; of a population without individuals the mean."""
    population, noise = config.population, Noise(config.noise_seed, config.noise.size)
    if not population.has_individuals:
        return [state.mean[0].copy()]
    draw = population.draw(stream(config.run.seed, "draw", state.generation), noise, state.mean.shape[1])
    count = min(INDIVIDUALS, population.size)
    return [population.individual(state.learned, draw, index, noise) for index in range(count)]


def _evaluate(
    config: Config,
    state: State,
    people: Sequence[Singles],
    mine: Sequence[int],
    ranks: Ranks,
    until: float = float("inf"),
) -> dict[int, Floats]:
    """Evaluate this rank's individuals in a new evaluator; return the rows of all ranks on every rank, by index."""
    task, observed, rows = config.task, config.task.observation_dim, []
    where = located(f"generation {state.generation}")
    with ranks.together(), where, closing(task.open(config.run.seed)) as evaluator:
        for index in mine:
            if ranks.stopping() or time.monotonic() > until:
                break
            next(seeded(evaluator, config, state.generation, index))
            outcome = evaluator.evaluate(index, people[index], *state.observation_mean_std(), observed > 0)
            sums = np.zeros(1 + 2 * observed) if outcome.observations is None else outcome.observations
            rows.append([*pack([outcome], task.behavior_dim)[0], *sums])
    width = LEADING + task.behavior_dim + 1 + 2 * observed
    return {int(row[0]): row for row in ranks.allgather(np.array(rows, np.float64).reshape(len(rows), width))}


def _difference(one: Floats, other: Floats, behavior_dim: int) -> str:
    """Return what differs first between two rows of the same individual; empty: nothing."""
    end = LEADING + behavior_dim
    parts = {"behaviour": range(LEADING, end), "fitness": [3], "length": [2], "validity": [1]}
    for name, places in {**parts, "observation sums": range(end, len(one))}.items():
        for number, place in enumerate(places):
            if one[place].tobytes() != other[place].tobytes():
                which = f"number {number} of its {name}" if len(places) > 1 else f"its {name}"
                return f"{which} is {one[place].item()!r} and then {other[place].item()!r}"
    return ""
