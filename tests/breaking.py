"""Tasks that go wrong on purpose, registered by the tests that use them."""

import os
import signal
import time

import numpy as np

from ees_mpi.outcomes import Floats, Outcome, Singles
from ees_mpi.registry import Part
from ees_mpi.tasks import TASKS
from ees_mpi.tasks.interference import Interference, pattern


class Breaking(Part, frozen=True):
    """The interference task, but for one individual of one rank's."""

    how: str = "raise"
    at: int = 3  # the individual at which it breaks
    seconds: float = 0.0  # what an evaluation takes
    mark: str = ""  # a file that says that it has broken

    parameters = 1
    behavior_dim = 1
    observation_dim = 0

    def initial(self, generator: np.random.Generator) -> Singles:
        return np.array([1.0], np.float32)

    def open(self, seed: int) -> "Breaking":
        return self

    def evaluate(
        self, index: int, parameters: Singles, observation_mean: Floats, observation_std: Floats, observe: bool
    ) -> Outcome:
        time.sleep(self.seconds)
        value = pattern(float(parameters[0]))
        if index == self.at and self.how == "raise":
            raise ZeroDivisionError("the task broke on purpose")
        if self.how == "everywhere":
            raise ZeroDivisionError("the task broke on purpose")
        if index == self.at and self.how == "leave":
            raise SystemExit(3)
        if index == self.at and self.how == "broken pipe":
            raise BrokenPipeError(32, "Broken pipe")
        if index == self.at and self.how == "keyboard":
            raise KeyboardInterrupt
        if index == self.at and self.how == "die" and not os.path.exists(self.mark):
            open(self.mark, "x").close()  # once
            os.kill(os.getpid(), signal.SIGKILL)
        if index == self.at and self.how == "hang":
            time.sleep(600)
        if index == self.at and self.how == "false nan":
            return Outcome(index, (float("nan"),), 1.0, 1)
        if index == self.at and self.how == "exit":
            os._exit(9)
        if (index == self.at and self.how == "nan") or (index >= self.at and self.how == "mostly nan"):
            return Outcome(index, (float("nan"),), float("nan"), 1, valid=False)
        return Outcome(index, (value,), value, 1)

    def close(self) -> None:
        pass


TASKS._members["breaking"] = "breaking:Breaking"
__all__ = ["Breaking", "Interference"]
