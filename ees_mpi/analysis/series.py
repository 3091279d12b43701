"""The logged metrics of a run over generations, and their titles."""

from collections.abc import Sequence

import numpy as np

from ees_mpi.outcomes import Floats
from ees_mpi.store.reader import Run

METRICS = {
    "entropy": "entropy of the behavior, nats",
    "behavior_variance": "variance of the behavior",
    "distance_mean": "mean distance from the origin",
    "distance_max": "largest distance from the origin",
    "fitness_mean": "mean fitness",
    "fitness_max": "largest fitness",
    "mean_fitness": "fitness of the unperturbed mean",
    "gradient_norm": "norm of the gradient",
    "invalid_share": "share of invalid rollouts",
}


def own_names(runs: Sequence[Run]) -> list[str]:
    """Return the names of the user's own objectives whose values all runs have."""
    names = [set(run.config.method.own_values if "objective_value" in run.names else ()) for run in runs]
    return [name for name in runs[0].config.method.own_values if all(name in known for known in names)]


def titles(runs: Sequence[Run]) -> dict[str, str]:
    """Return the metrics that all runs have, with their titles."""
    return {**{name: f"the objective {name}" for name in own_names(runs)}, **METRICS}


def series(run: Run, metric: str) -> Floats:
    """Return a metric over generations; the variances of several behavior numbers are added up."""
    own = list(run.config.method.own_values)
    logged = run["objective_value"][:, own.index(metric)] if metric in own else run[metric][:]
    values = np.asarray(logged, np.float64)
    return np.asarray(values.reshape(len(values), -1).sum(axis=1))
