"""Tasks and behaviours of a user: a base, good tasks, and some that are wrong in one way."""

import math
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ees_mpi.generation import Outcome
from ees_mpi.tasks.interference import pattern

if TYPE_CHECKING:
    from ees_mpi.tasks.gymnasium.behaviors import Rollout


class Base:
    parameters = 2
    behavior_dim = 1
    behavior: Any = (1.0,)
    start = 0.0

    def initial(self, generator: Any) -> Any:
        return np.full(self.parameters, self.start, np.float32)

    def open(self, seed: int) -> Any:
        return self

    def evaluate(self, index: int, *rest: object) -> Any:
        return Outcome(index, self.behavior, 0.0, 1)

    def close(self) -> None:
        pass


class Waves(Base):
    """The interference task."""

    parameters, start = 1, 1.0

    def evaluate(self, index: int, *rest: Any) -> Outcome:
        value = pattern(float(rest[0][0]))
        return Outcome(index, (value,), value, 1)


class Reusing(Base):
    """A task that returns the same arrays from every rollout."""

    behavior_dim, observation_dim = 2, 1
    place: Any
    total: Any

    def __init__(self) -> None:
        self.place, self.sums, self.total = np.zeros(2), np.zeros(3), np.zeros(())

    def evaluate(self, index: int, *rest: Any) -> Outcome:
        self.place[:] = rest[0]
        self.sums[:] = 1.0, index, index**2
        self.total[()] = index
        return Outcome(index, self.place, self.total, 1, observations=self.sums)


class InPlace(Base):
    """A task that changes in place what it is given."""

    observation_dim = 1

    def evaluate(self, index: int, *rest: Any) -> Outcome:
        return Outcome(index, (sum(doubled_in_place(array)[0] for array in rest[:3]),), 0.0, 1)


def doubled_in_place(z: Any) -> Any:
    z *= 2
    return z


class DoublingPolicy:
    """A policy that doubles its parameters in place."""

    def __init__(self, observations: int, actions: int) -> None:
        self.shape, self.count = (observations, actions), observations * actions

    def initial(self, generator: Any) -> Any:
        return generator.standard_normal(self.count, np.float32)

    def load(self, flat: Any) -> None:
        self.matrix = doubled_in_place(flat).reshape(self.shape)

    def act(self, observation: Any) -> Any:
        return observation @ self.matrix


class SlowAtFirst(Base):
    """A task that dawdles in a job's first life, so that something can happen to it; its outcomes stay the same."""

    parameters, start = 1, 1.0

    def __init__(self, task: int | None = None, seconds: float = 0.0, dawdle: float = 0.05):
        """Set the seconds of every rollout, those in the first life, and the array task that dawdles; None: all."""
        first = os.environ.get("SLURM_RESTART_COUNT", "0") == "0" and "SLURM_JOB_ID" in os.environ
        mine = task is None or os.environ.get("SLURM_ARRAY_TASK_ID") == str(task)
        self.pause = seconds or (dawdle if first and mine else 0.0)

    def evaluate(self, index: int, *rest: Any) -> Outcome:
        time.sleep(self.pause)
        went = math.sin(float(rest[0][0]))
        return Outcome(index, (went,), went, 1)


class Interrupting(Waves):
    """The interference task, which presses Ctrl-C before individual 5, some times, and only in its first run."""

    presses = 0  # that are left

    def evaluate(self, index: int, *rest: Any) -> Outcome:
        while index == 5 and Interrupting.presses:
            Interrupting.presses -= 1
            os.kill(os.getpid(), signal.SIGINT)
        return super().evaluate(index, *rest)


class Drawn(Base):
    """A task that can be drawn: its behaviour is its first parameter, its picture is grey."""

    step_seconds = 0.1
    on_step: Any = None

    def film(self, seed: int, view: Any) -> "Drawn":
        self.view = view
        return self

    def evaluate(self, index: int, *rest: Any) -> Outcome:
        self.x = float(rest[0][0])
        for step in range(4):
            if self.on_step:
                self.on_step(step)
        return Outcome(index, (self.x,), self.x, 3)

    def place(self) -> tuple[float]:
        return (self.x,)

    def picture(self) -> Any:
        return np.full((self.view.height, self.view.width, 3), 99, np.uint8)


class Capsule(Drawn):
    """A robot of one limb, which lies at its place; it has no picture of its own."""

    picture: Any = None

    def limbs(self) -> Any:
        return np.array([[self.x, 0.0, 0.3, self.x + 1.0, 0.0, 0.3, 0.2]])


class TwoPlaces(Base):
    """Offspring around x = 2 go one way, around x = -2 the other; one mean can hold only one of these places."""

    parameters = 1

    def initial(self, generator: Any) -> Any:
        return generator.uniform(-3.0, 3.0, 1)

    def evaluate(self, index: int, *rest: Any) -> Outcome:
        x = float(rest[0][0])
        went = x * math.exp((4 - x * x) / 8) / 2  # 1 at x = 2, -1 at x = -2, back to 0 beyond
        return Outcome(index, (went,), went, 1)


class Pace:
    """An optimizer that divides by a running norm of the gradient: one number, or one for each parameter."""

    shape: tuple[int, ...] = (1, 1)

    def start(self, learned: Any) -> Any:
        return {"norm": np.ones(self.shape)}

    def step(self, learned: Any, gradient: Any, moments: Any) -> Any:
        norm = 0.9 * moments["norm"] + 0.1 * np.abs(gradient["mean"]).mean()
        return {"mean": learned["mean"] + 0.01 * gradient["mean"] / norm}, {"norm": norm}


class Clipping:
    """An optimizer that clips the gradient in place."""

    def start(self, learned: Any) -> Any:
        return {}

    def step(self, learned: Any, gradient: Any, moments: Any) -> Any:
        np.clip(gradient["mean"], -0.001, 0.001, out=gradient["mean"])
        return {"mean": learned["mean"] + gradient["mean"]}, {}


def two_numbers(rollout: "Rollout") -> tuple[float, float]:
    return float(rollout.observations[-1][0]), sum(rollout.rewards)


def every_tenth(rollout: "Rollout") -> list[float]:
    return [float(seen[0]) for seen in rollout.observations[::10]]


def no_number(rollout: "Rollout") -> list[Any]:
    return [None, 1.0]
