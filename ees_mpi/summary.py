"""The metrics of every generation, computed from its outcomes alone."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.density import density
from ees_mpi.outcomes import Floats, Outcomes
from ees_mpi.ranks import Ranks


def summary(outcomes: Outcomes, bandwidth: float, ranks: Ranks) -> dict[str, NDArray[Any]]:
    """Return the metrics of one generation, by the names they have in the run file."""
    behavior = outcomes.behavior[outcomes.valid]
    distance = np.sqrt(np.square(behavior).sum(axis=1))
    values: dict[str, Any] = {
        "behavior_variance": behavior.var(axis=0),
        "entropy": entropy(outcomes, bandwidth, ranks),
        "distance_mean": distance.mean(),
        "distance_max": distance.max(),
        "fitness_mean": outcomes.fitness[outcomes.valid].mean(),
        "fitness_max": outcomes.fitness[outcomes.valid].max(),
        "invalid_share": 1.0 - outcomes.valid.mean(),
    }
    return {name: np.asarray(value, np.float64) for name, value in values.items()}


def entropy(outcomes: Outcomes, bandwidth: float, ranks: Ranks) -> float:
    """Estimate the differential entropy of the behaviour, in nats, with MaxEnt's own kernel density.

    The kernel has the standard deviation `bandwidth` on the whitened behaviours; the log of their standard
    deviations brings the estimate back to the task's units. -inf where a component does not vary.
    """
    std: Floats = outcomes.behavior[outcomes.valid].std(axis=0)
    if not (outcomes.whitened.any(axis=0)).all():
        return -math.inf
    p = density(outcomes, bandwidth, ranks) / (math.sqrt(2 * math.pi) * bandwidth) ** len(std)
    return float(np.log(std).sum() - np.log(p).mean())
