"""A custom task that fails on purpose, in many ways, and the command that trains it."""

import ctypes
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ees_mpi.outcomes import Floats, Outcome, Singles
from ees_mpi.tasks.interference import pattern
from support.program import command, sets

CONFIG = """
[run]
generations = 5
[task]
name = "custom"
function = "support.breaking:Breaking"
deterministic = false
[population]
name = "normal"
size = 20
std = 0.5
[objective]
name = "maxvar"
[optimizer]
name = "ascent"
lr = 0.03
[noise]
size = 100
"""


@dataclass(frozen=True)
class Breaking:
    """The interference task, but for one individual."""

    how: str = "raise"
    at: int = 3  # the individual at which it breaks
    seconds: float = 0.0  # that an evaluation takes
    mark: str = ""  # a file that says that it has broken, or that it waits

    parameters: int = 1
    behavior_dim: int = 1

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
        if index == self.at and self.how == "leave":
            raise SystemExit(3)
        if index == self.at and self.how == "broken pipe":
            raise BrokenPipeError(32, "Broken pipe")
        if index > 0 and self.how == "ctrl-c twice":  # on all ranks, as srun does
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        if index == self.at and self.how == "die" and not os.path.exists(self.mark):
            open(self.mark, "x").close()  # once
            os.kill(os.getpid(), signal.SIGKILL)
        if index == self.at and self.how == "hang":
            time.sleep(600)
        if index == self.at and self.how == "loop":
            while True:
                pass
        if index == self.at and self.how == "lock":
            ctypes.PyDLL(None).sleep(600)  # the interpreter's lock is held
        if index == self.at and self.how == "mark":
            Path(self.mark).write_text(f"{os.getpid()}")
        if index == self.at and self.how == "false nan":
            return Outcome(index, (float("nan"),), 1.0, 1)
        if index == self.at and self.how == "nan":
            return Outcome(index, (float("nan"),), float("nan"), 1, valid=False)
        return Outcome(index, (value,), value, 1)

    def close(self) -> None:
        pass


def breaking(out: Path, ranks: int, *settings: str) -> list[str]:
    """Return the words that train the breaking task."""
    config = out.with_suffix(".toml")
    config.write_text(CONFIG)
    return command("train", config, "--out", out, *sets(*settings), ranks=ranks)
