"""A custom task that fails on purpose, in many ways, and the command that trains it."""

import atexit
import contextlib
import ctypes
import math
import multiprocessing
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ees_mpi.generation import Outcome
from ees_mpi.tasks.interference import pattern
from support.own_tasks import Base
from support.program import command, sets

CONFIG = """
base = "interference-maxvar"
run.generations = 5
task = { name = "custom", function = "support.breaking:Breaking", deterministic = false }
population.size = 20
noise.size = 100
"""


@dataclass(frozen=True)
class Breaking(Base):
    """The interference task, but for one individual."""

    how: str = "raise"
    at: int = 3  # the individual at which it breaks
    seconds: float = 0.0  # that an evaluation takes
    mark: str = ""  # a file that says that it has broken, or that it waits

    parameters: int = 1
    start: float = 1.0

    def __post_init__(self) -> None:
        if os.environ.get("OMPI_COMM_WORLD_RANK") == "1":
            match self.how:
                case "open":
                    time.sleep(600)
                case "size":
                    object.__setattr__(self, "behavior_dim", 2)

    def evaluate(self, index: int, *rest: Any) -> Outcome:
        time.sleep(self.seconds)
        if index > 0 and self.how == "ctrl-c twice":  # on all ranks, as srun does
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        value = pattern(float(rest[0][0]))
        return self._break(value) if index == self.at else Outcome(index, (value,), value, 1)

    def _break(self, value: float) -> Outcome:
        match self.how:
            case "raise":
                raise ZeroDivisionError("the task broke on purpose")
            case "interrupt":
                raise KeyboardInterrupt
            case "leave":
                raise SystemExit(3)
            case "exit":
                os._exit(9)
            case "broken pipe":
                raise BrokenPipeError(32, "Broken pipe")
            case "die" if not os.path.exists(self.mark):
                open(self.mark, "x").close()  # once
                os.kill(os.getpid(), signal.SIGKILL)
            case "shout":
                with contextlib.suppress(OSError):  # of numbers that no file has taken
                    os.write(1, b"to stdout") and os.write(2, b"to stderr")
                os.kill(os.getpid(), signal.SIGKILL)
            case "pool":
                with multiprocessing.get_context("fork").Pool(1) as pool:
                    return Outcome(self.at, (pool.apply(abs, (value,)),), value, 1)
            case "hang":
                time.sleep(600)
            case "loop":
                while True:
                    time.sleep(0.01)  # in steps of Python, but no core is taken from other tests
            case "lock":
                ctypes.PyDLL(None).sleep(600)  # the interpreter's lock is held
            case "stop at exit":
                atexit.register(os.kill, os.getpid(), signal.SIGSTOP)
            case "close at exit":
                atexit.register(os.closerange, 3, 4096)  # with those of MPI
            case "sleep at exit":
                atexit.register(time.sleep, 600)
            case "mark":
                Path(self.mark).write_text(f"{os.getpid()}")
            case "false nan":
                return Outcome(self.at, (float("nan"),), 1.0, 1)
            case "inf":
                return Outcome(self.at, (value,), -math.inf, 1)
            case "nan":
                return Outcome(self.at, (float("nan"),), float("nan"), 1, valid=False)
        return Outcome(self.at, (value,), value, 1)


def breaking(out: Path, ranks: int, *settings: str) -> list[str]:
    """Return the words that train the breaking task."""
    config = out.with_suffix(".toml")
    config.write_text(CONFIG)
    return command("train", config, "--out", out, *sets(*settings), ranks=ranks)
