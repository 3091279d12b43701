"""Round limits of axes, the same in figures, reports and the terminal."""

import math
from collections.abc import Sequence

import numpy as np

from ees_mpi.analysis.offspring import has_positions
from ees_mpi.outcomes import Floats
from ees_mpi.store.reader import Run

LARGEST = 1e300  # larger numbers are drawn as this one: their differences overflow
Limits = list[tuple[float, float]]  # of each axis


def nice(step: float) -> float:
    """Round a step up to 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= step * (1 - 1e-9))


def around(low: float, high: float) -> tuple[float, float]:
    """Return the next round numbers outside of a range; if it is empty, a range around its number."""
    if low == high:
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    step = nice((high - low) / 25)
    return step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9)


def limits(run: Run, low: Floats, high: Floats) -> Limits:
    """Return the limits [B] of behaviors between `low` and `high`: of robots the start is in the middle of all axes."""
    low, high = np.clip(low, -LARGEST, LARGEST), np.clip(high, -LARGEST, LARGEST)
    if has_positions(run):
        reach = max(np.abs(low).max(), np.abs(high).max()) or 1.0
        low, high = np.full(len(low), -reach), np.full(len(high), reach)
    return [around(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)]


def limits_of(run: Run, rows: Sequence[Floats]) -> Limits:
    """Return the limits of all behaviors of `rows`, each [n, B]."""
    return limits(run, np.min([part.min(axis=0) for part in rows], 0), np.max([part.max(axis=0) for part in rows], 0))
