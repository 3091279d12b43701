"""Outcomes of a made-up generation, and arrays that several ranks compute together."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ees_mpi.generation import Outcomes
from ees_mpi.ranks import Ranks


def outcomes(count: int = 40, dim: int = 2, invalid: tuple[int, ...] = ()) -> Outcomes:
    """Return outcomes of random behaviours and fitnesses; `invalid`: individuals whose rollouts failed."""
    generator = np.random.default_rng(count + dim)
    valid = np.ones(count, bool)
    valid[list(invalid)] = False
    behavior = generator.normal(3.0, 2.0, (count, dim)) ** 3
    behavior[~valid] = np.nan
    fitness = np.where(valid, generator.normal(size=count), np.nan)
    by_start = np.stack([behavior, 2 * behavior], axis=1)
    return Outcomes(behavior, fitness, np.ones(count, int), valid, np.zeros((0, 1)), by_start)


def in_parts(compute: Callable[[Ranks], Any], size: int = 3) -> Any:
    """Return the parts of an array that each of `size` ranks computes, one behind the other."""
    parts = []
    for rank in range(size):
        ranks = Ranks()
        ranks.rank, ranks.size = rank, size
        parts.append(compute(ranks))
    return np.concatenate(parts)
