"""The logged metrics of a run over generations, and their titles."""

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


def series(run: Run, metric: str) -> Floats:
    """Return a metric over generations; the variances of several behavior numbers are added up."""
    values = np.asarray(run[metric][:], np.float64)
    return np.asarray(values.reshape(len(values), -1).sum(axis=1))
