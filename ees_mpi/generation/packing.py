"""Outcomes as rows of numbers: ranks gather them, and `verify` and `replay` compare them with those of a run file."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ees_mpi.errors import PluginError
from ees_mpi.outcomes import MAX_BEHAVIOR, Floats, Outcome, Outcomes
from ees_mpi.store.layout import BY_START
from ees_mpi.store.reader import Run

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


class Repeated(NamedTuple):
    """One row of a run file, as logged and as evaluated again: valid, length, fitness, behavior."""

    logged: Floats
    evaluated: Floats
    same_by_start: bool = True  # task.rollouts > 1: whether every bit of the behaviour from each start is the same

    @property
    def same(self) -> bool:
        """True if every bit is the same."""
        return self.logged.tobytes() == self.evaluated.tobytes() and self.same_by_start


def logged(run: Run, generation: int, index: int) -> Floats:
    """Return the logged row of an individual: valid, length, fitness, behavior."""
    numbers = [run[name][generation][index] for name in ("valid", "length", "fitness")]
    return np.array([*numbers, *run["behavior"][generation][index]], np.float64)


def as_logged(row: Floats) -> Floats:
    """Return a packed outcome in the same form: valid, length, fitness, behavior."""
    one = unpack(row, np.zeros((0, 1)))
    return np.array([one.valid[0], one.length[0], one.fitness[0], *one.behavior[0]], np.float64)


def same_by_start(run: Run, generation: int, index: int, outcome: Outcome) -> bool:
    """Return whether the behaviours from all starts have the bits of the file; True if it has one start only."""
    if BY_START not in run.names:
        return True
    return bool(np.asarray(outcome.by_start, np.float64).tobytes() == run[BY_START][generation][index].tobytes())
