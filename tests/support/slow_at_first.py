"""A task that dawdles in a job's first life, so that something can happen to it; its outcomes stay the same."""

import math
import os
import time

import numpy as np

from ees_mpi.outcomes import Outcome


class SlowAtFirst:
    """One parameter; `task`: the array task that dawdles, where not all do; `seconds`: of every rollout;
    `dawdle`: seconds of a rollout in the first life.
    """

    parameters = 1
    behavior_dim = 1

    def __init__(self, task=None, seconds=0.0, dawdle=0.05):
        self.pause = (
            dawdle if os.environ.get("SLURM_RESTART_COUNT", "0") == "0" and "SLURM_JOB_ID" in os.environ else 0.0
        )
        if task is not None and os.environ.get("SLURM_ARRAY_TASK_ID") != str(task):
            self.pause = 0.0
        self.pause = seconds or self.pause

    def initial(self, generator):
        return np.array([1.0])

    def open(self, seed):
        return self

    def evaluate(self, index, parameters, observation_mean, observation_std, observe):
        time.sleep(self.pause)
        went = math.sin(float(parameters[0]))
        return Outcome(index, (went,), went, 1)

    def close(self):
        pass
