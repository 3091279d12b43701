"""A row of a run file that is evaluated again, with the method of the run; see `commands.verify`."""

from typing import NamedTuple

import numpy as np

from ees_mpi.outcomes import Floats, unpack
from ees_mpi.store.reader import Run


class Repeated(NamedTuple):
    """One row of a run file, as logged and as evaluated again: valid, length, fitness, behavior."""

    logged: Floats
    evaluated: Floats

    @property
    def same(self) -> bool:
        """True if every bit is the same."""
        return self.logged.tobytes() == self.evaluated.tobytes()


def logged(run: Run, generation: int, index: int) -> Floats:
    """Return the logged row of an individual: valid, length, fitness, behavior."""
    numbers = [run[name][generation][index] for name in ("valid", "length", "fitness")]
    return np.array([*numbers, *run["behavior"][generation][index]], np.float64)


def as_logged(row: Floats) -> Floats:
    """Return a packed outcome in the same form: valid, length, fitness, behavior."""
    one = unpack(row, np.zeros((0, 1)))
    return np.array([one.valid[0], one.length[0], one.fitness[0], *one.behavior[0]], np.float64)
