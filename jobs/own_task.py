"""A task of one's own: a throw whose mutations should land in different places.

ees-mpi train jobs/own_task.toml --out throw.h5        (from the folder that has `jobs`)
"""

import math

import numpy as np

from ees_mpi.outcomes import Outcome


class Throw:
    """Two parameters set angle and speed of a throw; the behaviour is where it lands."""

    parameters = 2
    behavior_dim = 1

    def __init__(self, gravity: float = 9.8):
        self.gravity = gravity

    def initial(self, generator):
        """Return the first mean [parameters]."""
        return np.array([0.2, 1.0])

    def open(self, seed):
        """Return what evaluates individuals on this rank; `seed` is the run's."""
        return self

    def evaluate(self, index, parameters, observation_mean, observation_std, observe):
        """Turn the parameters of one individual into an outcome; nothing else may show in it."""
        angle, speed = float(parameters[0]), float(parameters[1])
        landed = speed * speed * math.sin(2 * angle) / self.gravity
        return Outcome(index, behavior=(landed,), fitness=landed, length=1)

    def close(self):
        """Let go of what the task holds."""
