"""Plain ascent on `gradient - l2 * theta` for each learned array of a population."""

import numpy as np

from ees_mpi.arrays import Arrays
from ees_mpi.strategy.optimizers.base import Decay, Optimizer, Rate, l2_of, moved, quietly


class Ascent(Optimizer, frozen=True):
    """Plain gradient ascent: theta + lr * gradient."""

    lr: Rate = 0.01
    l2: Decay = 0.0

    def start(self, learned: Arrays) -> Arrays:
        return {}

    @quietly
    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays) -> tuple[Arrays, Arrays]:
        following = {}
        for name, theta in learned.items():
            slope = gradient[name] - l2_of(self, name) * theta.astype(np.float64)
            following[name] = moved(name, theta, self.lr * slope)
        return following, moments
