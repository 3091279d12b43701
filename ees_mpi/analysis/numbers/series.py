"""Metrics over the generations of runs, for curves: the logged ones, and those that are measured from the file."""

from collections.abc import Sequence

import numpy as np

from ees_mpi.analysis.numbers.measures import MEASURES
from ees_mpi.analysis.numbers.scale import BY_CELL, Scale
from ees_mpi.analysis.offspring import positions, read_offspring
from ees_mpi.commands.verify import spaced
from ees_mpi.outcomes import Floats
from ees_mpi.run.file import Run

LOGGED = {
    "behavior_variance": "variance of the behaviour",
    "distance_mean": "mean distance from the origin",
    "distance_max": "largest distance from the origin",
    "fitness_mean": "mean fitness",
    "fitness_max": "largest fitness",
    "mean_fitness": "fitness of the unperturbed mean",
    "gradient_norm": "norm of the gradient",
    "invalid_share": "share of invalid rollouts",
}
SHOWN = 60  # generations of which these are computed, at most: the entropy of N individuals takes N^2 numbers


def titles(runs: Sequence[Run], scale: Scale) -> dict[str, str]:
    """Return the metrics that all runs have, with their titles; the user's own objectives first."""
    logged = [run.config.method.plugin_objectives if "objective_value" in run.names else () for run in runs]
    plugins = [name for name in logged[0] if all(name in names for names in logged)]
    found = {name: f"the objective {name}" for name in plugins}
    found["entropy"] = "entropy with the objective's kernel, nats"
    if all(run.config.population.has_individuals for run in runs):
        found["entropy_fixed"] = f"entropy with a kernel of one cell, nats ({scale.cells})"
        found["coverage"] = f"coverage ({scale.cells})"
    return found | LOGGED


def series(run: Run, metric: str, scale: Scale) -> Floats:
    """Return a metric over generations for a curve; several behaviour variances are added up.

    A measure is computed for some generations, and the values between them lie on straight lines.
    """
    plugins = list(run.config.method.plugin_objectives)
    if metric in BY_CELL and metric not in plugins:
        shown = [g for g in spaced(run.generations, SHOWN) if np.isfinite(positions(run, g)).all(axis=1).any()]
        measured = [MEASURES[metric].compute(read_offspring(run, g), scale) for g in shown]
        return np.interp(np.arange(run.generations), shown or [0], measured or [np.nan])
    logged = run["objective_value"][:, plugins.index(metric)] if metric in plugins else run[metric][:]
    values = np.asarray(logged, np.float64)
    return np.asarray(values.reshape(len(values), -1).sum(axis=1))
