"""The lengths of metrics that several runs share, and metrics over the generations of runs, for curves.

The paper's robots have lengths of their own (`Task.lengths`). Elsewhere the lengths fit the places of all generations
of all files, so that every generation has the same ones; see `spread.Scale`.
"""

from collections.abc import Sequence

import numpy as np

from ees_mpi import metrics
from ees_mpi.analysis.offspring import number_of, positions, task_of
from ees_mpi.commands.verify import spaced
from ees_mpi.outcomes import Floats
from ees_mpi.run.file import Run
from ees_mpi.spread import Scale

SEEN = 60  # generations of a run that are looked at, at most: the entropy of N individuals takes N^2 numbers


def scales(runs: Sequence[Run], cell: float | None = None, radius: float | None = None) -> list[Scale]:
    """Return the lengths for each run: those of one task have the same; cell, radius: prescribed by the user."""
    found = {task_of(run): run for run in runs}
    of_task = {task: _scale([run for run in runs if task_of(run) == task], cell, radius) for task in found}
    return [of_task[task_of(run)] for run in runs]


def _scale(runs: Sequence[Run], cell: float | None, radius: float | None) -> Scale:
    settings = runs[0].metric_settings
    cell, radius = (given or own for given, own in zip((cell, radius), settings.lengths or (None, None), strict=True))
    places = np.zeros((0, settings.axes))
    if not (cell and radius):
        places = np.concatenate([positions(run, g) for run in runs for g in spaced(run.generations, SEEN)])
    return Scale.fitting(places[np.isfinite(places).all(axis=1)], cell, radius)


def titles(runs: Sequence[Run], scale: Scale) -> dict[str, str]:
    """Return the metrics that all runs have, with their titles; the user's own objectives first."""
    known = [[*run.metric_settings.own_names, *metrics.fitting(run.metric_settings)] for run in runs]
    return {name: metrics.title(name, scale) for name in known[0] if all(name in names for names in known)}


def series(run: Run, name: str, scale: Scale) -> Floats:
    """Return a metric over generations for a curve.

    One that the file does not have is computed for some generations, and the values between them lie on straight lines.
    """
    settings = run.metric_settings
    array = metrics.OWN if name in settings.own_names else name
    if array in run.names:
        return metrics.column({array: run[array][:]}, name, settings)
    shown = [g for g in spaced(run.generations, SEEN) if np.isfinite(positions(run, g)).all(axis=1).any()]
    measured = [number_of(run, name, g, scale) for g in shown]
    return np.interp(np.arange(run.generations), shown or [0], measured or [np.nan])
