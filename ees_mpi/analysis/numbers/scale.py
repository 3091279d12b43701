"""The lengths of the measures of places: the side of a grid cell, and the radius around the origin.

The paper's robots have lengths of their own (`Task.lengths`). Elsewhere the lengths fit the places of all generations
of all files, so that every generation has the same ones: a cell is a twentieth of the span from the 5th to the 95th
percentile, for each number of a place, and the radius a tenth of the longest span. They are rounded, so that they stay
the same while a run goes on.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ees_mpi.analysis.offspring import position_dim, positions, task_of
from ees_mpi.commands.verify import spaced
from ees_mpi.outcomes import Floats
from ees_mpi.run.file import Run

BY_CELL, BY_RADIUS = ("entropy_fixed", "coverage"), ("near_origin", "balance", "direction_uniformity")
OUTLIERS = 5  # percent of the places at either end that may be wild
SEEN = 60  # generations of a run that are looked at, at most


class Scale(NamedTuple):
    """The lengths, the same for all generations and runs that are compared."""

    cell: Floats  # [A], the sides of a cell
    radius: float  # a mutation that ends nearer to the origin has no direction

    @property
    def cells(self) -> str:
        """Return the size of a cell in words."""
        sides = self.cell[:1] if (self.cell == self.cell[0]).all() else self.cell
        return "cells of " + " x ".join(f"{side:g}" for side in sides)

    def lengths(self, metric: str) -> str:
        """Return the length that a metric depends on in words; empty: none."""
        return self.cells if metric in BY_CELL else f"radius {self.radius:g}" if metric in BY_RADIUS else ""

    def __str__(self) -> str:
        return f"{self.cells}, radius {self.radius:g}"


def scales(runs: Sequence[Run], cell: float | None = None, radius: float | None = None) -> list[Scale]:
    """Return the lengths for each run: those of one task have the same; cell, radius: prescribed by the user."""
    found = {task_of(run): run for run in runs}
    of_task = {task: _scale([run for run in runs if task_of(run) == task], cell, radius) for task in found}
    return [of_task[task_of(run)] for run in runs]


def _scale(runs: Sequence[Run], cell: float | None, radius: float | None) -> Scale:
    own = runs[0].config.task.lengths
    cell, radius = cell or (own and own[0]), radius or (own and own[1])
    spans = np.zeros(position_dim(runs[0])) if cell and radius else _spans(runs)
    sides = [cell or rounded(span / 20) for span in spans.tolist()]
    return Scale(np.array(sides), radius or rounded(float(spans.max()) / 10))


def _spans(runs: Sequence[Run]) -> Floats:
    """Return the span [A] of each number of a place, without the outliers at either end."""
    places = np.concatenate([positions(run, g) for run in runs for g in spaced(run.generations, SEEN)])
    places = places[np.isfinite(places).all(axis=1)]
    if not len(places):
        return np.zeros(places.shape[1])
    low, high = np.percentile(places, (OUTLIERS, 100 - OUTLIERS), axis=0)
    return np.asarray(high - low)


def rounded(length: float) -> float:
    """Return the nearest of 1, 2 and 5 times a power of ten; 1 for a length of 0."""
    if not length > 0:
        return 1.0
    power = math.floor(math.log10(length))
    near = [float(f"{step}e{power}") for step in (1, 2, 5, 10)]
    return min(near, key=lambda step: abs(math.log(step / length)))
