"""A toy with two places: offspring around x = 2 go one way, around x = -2 the other; one mean can hold only one."""

import math

import numpy as np

from ees_mpi.outcomes import Outcome


class TwoPlaces:
    parameters = 1
    behavior_dim = 1

    def initial(self, generator):
        return generator.uniform(-3.0, 3.0, 1)

    def open(self, seed):
        return self

    def evaluate(self, index, parameters, observation_mean, observation_std, observe):
        x = float(parameters[0])
        went = x * math.exp((4 - x * x) / 8) / 2  # 1 at x = 2, -1 at x = -2, back to 0 beyond
        return Outcome(index, (went,), went, 1)

    def close(self):
        pass


__all__ = ["TwoPlaces", "np"]
