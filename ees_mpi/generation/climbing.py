"""ES-MAML with hill climbing: the fitness of an individual is the one after it has adapted to a direction.

Song, Gao, Yang, Choromanski, Pacchiano and Tang 2020 (arXiv:1910.01215): zero-order ES-MAML, hill-climbing operator.

    v_i = f_T( U(z_i, T) )        T: to walk in the direction of the config, or in the opposite one
    U(z, T): z_0 = z;  z_q = z_(q-1) + std eps_q if this is better in T than z_(q-1), else z_(q-1);  q = 1 ... queries
    w, gradient, step: those of an evolution strategy with the fitness v

Half of the pairs have each direction; the two individuals of a pair share theirs. The behaviour of an individual is
that of its adapted parameters; its length is the sum of its 1 + queries rollouts, which are all counted. A rollout here
always gives the same result, so that v needs no further rollout.

These are the details of the authors' program (`es_maml/zero_order`); of the paper only the beginning was found. One
differs: the program divides v by its standard deviation, and the objective `fitness` here uses the ranks of v.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ees_mpi.config import Climbing
from ees_mpi.noise import stream
from ees_mpi.outcomes import Outcome, Singles


@lru_cache(maxsize=2)
def directions(seed: int, generation: int, size: int, antithetic: bool) -> NDArray[np.int8]:
    """Return +1 or -1 for each individual [N]: the direction of the config, or the opposite one."""
    generator, step = stream(seed, "directions", generation), 2 if antithetic else 1
    half = np.where(np.arange(-(-size // step)) % 2 == generator.integers(2), 1, -1).astype(np.int8)
    return np.repeat(generator.permutation(half), step)[:size]


def climb(
    evaluate: Callable[[Singles], Outcome],
    sign: int,
    parameters: Singles,
    settings: Climbing,
    generator: np.random.Generator,
) -> tuple[Singles, Outcome]:
    """Return the parameters after the hill climbing, and their outcome with all steps and observations of it.

    sign: -1: the opposite direction, in which the fitness, a distance, has the opposite sign
    """
    rollouts = [evaluate(parameters)]
    best, pivot = rollouts[0], sign * rollouts[0].fitness if rollouts[0].valid else -np.inf
    for _ in range(settings.queries):
        noise = generator.standard_normal(parameters.size, np.float32)
        tried = parameters + np.float32(settings.query_std) * noise
        rollouts.append(evaluate(tried))
        if rollouts[-1].valid and sign * rollouts[-1].fitness > pivot:
            parameters, best, pivot = tried, rollouts[-1], sign * rollouts[-1].fitness
    sums = [rollout.observations for rollout in rollouts if rollout.valid and rollout.observations is not None]
    observations = np.sum(sums, axis=0) if sums else None
    length = sum(rollout.length for rollout in rollouts)
    return parameters, replace(best, fitness=sign * best.fitness, length=length, observations=observations)
