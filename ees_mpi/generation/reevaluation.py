"""A row of a run file that is evaluated again, with the method of the run; see `commands.verify`."""

from typing import NamedTuple

import numpy as np

from ees_mpi.generation.packing import unpack
from ees_mpi.outcomes import Floats, Outcome
from ees_mpi.run.arrays import BY_START
from ees_mpi.run.file import Run


class Repeated(NamedTuple):
    """One row of a run file, as logged and as evaluated again: valid, length, fitness, behavior."""

    logged: Floats
    evaluated: Floats
    same_by_start: bool = True  # task.rollouts > 1: whether every bit of the behaviour from each start is the same
    by_start: Floats | None = None  # task.rollouts > 1: the behaviours [K, B] as evaluated again

    @property
    def same(self) -> bool:
        """True if every bit is the same."""
        return self.logged.tobytes() == self.evaluated.tobytes() and self.same_by_start

    @property
    def first(self) -> Floats:
        """The behaviour [B] from the first start, evaluated again."""
        return self.evaluated[3:] if self.by_start is None else self.by_start[0]


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
