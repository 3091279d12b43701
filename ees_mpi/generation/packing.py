"""Outcomes as rows of numbers, in which ranks gather them."""

from collections.abc import Sequence

import numpy as np

from ees_mpi.errors import PluginError
from ees_mpi.outcomes import MAX_BEHAVIOR, Floats, Outcome, Outcomes

LEADING = 4  # columns in front of the behaviour: index, valid, length, fitness


def behavior_columns(behavior_dim: int, starts: int) -> int:
    """Return the columns of a packed behaviour; with K > 1 starts, the behaviours from each follow the mean."""
    return behavior_dim * (1 + starts if starts > 1 else 1)


def pack(outcomes: Sequence[Outcome], behavior_dim: int, starts: int = 1) -> Floats:
    """Return outcomes as rows of doubles [n, 4 + B], which can be gathered; with K > 1 starts [n, 4 + B + K B]."""
    for outcome in outcomes:
        if len(outcome.behavior) != behavior_dim:
            raise PluginError(
                f"individual {outcome.index}: a behaviour has {len(outcome.behavior)} numbers; expected {behavior_dim}"
            )
    rows = [(outcome.index, outcome.valid, outcome.length, outcome.fitness, *outcome.behavior) for outcome in outcomes]
    packed = np.array(rows, np.float64).reshape(len(outcomes), LEADING + behavior_dim)
    if starts == 1:
        return packed
    by_start = np.array([outcome.by_start for outcome in outcomes], np.float64)
    return np.hstack([packed, by_start.reshape(len(outcomes), starts * behavior_dim)])


def unpack(rows: Floats, observations: Floats, starts: int = 1, common: bool = False) -> Outcomes:
    """Return the outcomes of gathered rows, which are in index order; `common`: all have the same starts."""
    end = LEADING + (rows.shape[1] - LEADING) // behavior_columns(1, starts)
    return Outcomes(
        behavior=np.ascontiguousarray(rows[:, LEADING:end]),
        fitness=rows[:, 3].copy(),
        length=rows[:, 2].astype(np.int64),
        valid=(rows[:, 1] != 0)
        & np.isfinite(rows[:, 3:]).all(axis=1)
        & (np.abs(rows[:, LEADING:end]) <= MAX_BEHAVIOR).all(axis=1),
        observations=observations,
        by_start=rows[:, end:].reshape(len(rows), starts, end - LEADING) if starts > 1 else None,
        common_starts=common,
    )
