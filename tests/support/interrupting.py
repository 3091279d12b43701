"""A task that presses Ctrl-C, and the config that trains it."""

import os
import signal
from typing import Any

import numpy as np

from ees_mpi.outcomes import Outcome, Singles
from ees_mpi.tasks.interference import pattern


class Interrupting:
    """The interference task, which presses Ctrl-C before individual 5, some times, and only in its first run."""

    parameters = behavior_dim = 1
    presses = 0  # that are left

    def initial(self, generator: np.random.Generator) -> Singles:
        return np.array([1.0], np.float32)

    def open(self, seed: int) -> "Interrupting":
        return self

    def evaluate(self, index: int, parameters: Singles, *rest: object) -> Outcome:
        while index == 5 and Interrupting.presses:
            Interrupting.presses -= 1
            os.kill(os.getpid(), signal.SIGINT)
        value = pattern(float(parameters[0]))
        return Outcome(index, (value,), value, 1)

    def close(self) -> None:
        pass


CONFIG: dict[str, Any] = {
    "run": {"generations": 3, "fsync": False},
    "task": {"name": "custom", "function": Interrupting},
    "population": {"name": "normal", "size": 20, "std": np.float32(0.5)},
    "objective": {"name": "maxvar"},
    "optimizer": {"name": "ascent", "lr": 0.03},
    "noise": {"size": 100, "seed": None},
}
