"""A task that dawdles in a job's first life, so that something can happen to it; its outcomes stay the same."""

import math
import os
import time

from ees_mpi.generation import Outcome
from support.own_tasks import Base


class SlowAtFirst(Base):
    """One parameter; `task`: the array task that dawdles, where not all do; `seconds`: of every rollout;
    `dawdle`: seconds of a rollout in the first life.
    """

    parameters, start = 1, 1.0

    def __init__(self, task=None, seconds=0.0, dawdle=0.05):
        first = os.environ.get("SLURM_RESTART_COUNT", "0") == "0" and "SLURM_JOB_ID" in os.environ
        mine = task is None or os.environ.get("SLURM_ARRAY_TASK_ID") == str(task)
        self.pause = seconds or (dawdle if first and mine else 0.0)

    def evaluate(self, index, *rest):
        time.sleep(self.pause)
        went = math.sin(float(rest[0][0]))
        return Outcome(index, (went,), went, 1)
