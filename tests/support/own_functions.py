"""Functions of a user, as tasks: one with invalid rollouts, one with random starts."""

import numpy as np

PARAMETERS = 5


def waves(z, seed=0):
    """Return a behaviour of 2 numbers and a fitness; some rollouts are invalid."""
    valid = 1.0 if z[1] < 0.42 else np.nan
    return np.array([np.sin(5 * z[0]) + z[2], z[1] * z[3] * valid]), float(z[4] - abs(z[0]))


def started(z, seed):
    """Return a behaviour and a fitness that depend on the start."""
    start = np.random.default_rng(seed).standard_normal(2)
    behavior, fitness = waves(z)
    return behavior + 0.1 * start * (1 + z[:2]), fitness + float(start[0])
