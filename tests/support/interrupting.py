"""A task that presses Ctrl-C, and the config that trains it."""

import os
import signal
from typing import Any

import numpy as np

from ees_mpi.outcomes import Outcome
from support.own_tasks import Waves


class Interrupting(Waves):
    """The interference task, which presses Ctrl-C before individual 5, some times, and only in its first run."""

    presses = 0  # that are left

    def evaluate(self, index: int, *rest: Any) -> Outcome:
        while index == 5 and Interrupting.presses:
            Interrupting.presses -= 1
            os.kill(os.getpid(), signal.SIGINT)
        return super().evaluate(index, *rest)


CONFIG: dict[str, Any] = {
    "run": {"generations": 3, "fsync": False},
    "task": {"name": "custom", "function": Interrupting},
    "population": {"name": "normal", "size": 20, "std": np.float32(0.5)},
    "objective": {"name": "maxvar"},
    "optimizer": {"name": "ascent", "lr": 0.03},
    "noise": {"size": 100, "seed": None},
}
