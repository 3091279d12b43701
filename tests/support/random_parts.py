"""Parts that are not deterministic, each in its own way, and parts that use the seed of a rollout.

As a program on several ranks, `python random_parts.py RUN.h5`: one task that only other ranks unmask, and one that is
right.
"""

import os
import sys
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box

import ees_mpi
from ees_mpi.generation import Outcome
from support.own_tasks import Base

MAXENT = {"population": {"std": 0.02}, "objective": {"name": "maxent"}}
SMALL = {"population.size": 8, "run.generations": 2, "noise.size": 5000, "run.fsync": False}
RANDOM = np.random.default_rng()  # without a seed


def first(z: Any) -> Any:
    return z[0]


def random(z: Any) -> Any:
    return z[0] + RANDOM.normal()


def of_process(z: Any) -> Any:
    return z[0] + os.getpid()


def several(z: Any) -> Any:
    return z[:, :1] + RANDOM.normal(size=(len(z), 1))


def seeded(z: Any, seed: int) -> Any:
    return float(z[0]) + np.random.default_rng(seed).normal()


def seeded_rows(z: Any, seed: int) -> Any:
    return z[:, :1] + np.random.default_rng(seed).normal(size=(len(z), 1))


def wide(z: Any, seed: int) -> Any:
    return z[0] * np.arange(1, 11) + np.random.default_rng(seed).normal(size=10)


class Walk(gymnasium.Env):
    """A point on a line, which uses its seed; `fault`: "leftover", a time that it does not reset."""

    observation_space, action_space = Box(-9, 9, (2,), np.float32), Box(-1, 1, (1,), np.float32)
    time = 0.0

    def __init__(self, fault: str = ""):
        self.fault = fault

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.x = float(self.np_random.normal())
        if self.fault != "leftover":
            self.time = 0.0
        return self.seen(), {}

    def seen(self) -> Any:
        return np.array([self.x, self.time], np.float32)

    def step(self, action: Any) -> Any:
        self.time += 0.1
        self.x += 0.1 * float(action[0])
        return self.seen(), self.x, False, False, {}


gymnasium.register("Walk-v0", Walk)


class Act:
    """A policy of one number, whose actions are random with `noisy`."""

    count = 1

    def __init__(self, observations: int, actions: int, noisy: bool = True):
        self.noisy = noisy

    def initial(self, generator: Any) -> Any:
        return np.zeros(1, np.float32)

    def load(self, flat: Any) -> None:
        self.parameter = flat[0]

    def act(self, observation: Any) -> Any:
        return np.array([self.parameter + self.noisy * RANDOM.normal()], np.float32)


class Throws(Base):
    """A task whose evaluators are made with a seed."""

    def open(self, seed: int) -> "Throws":
        return type(self)().reseeded(seed)

    def reseeded(self, seed: int) -> "Throws":
        self.seed = seed
        return self

    def evaluate(self, index: int, *rest: Any) -> Outcome:
        x = float(rest[0][0]) + float(np.random.default_rng(self.seed).normal())
        return Outcome(index, (x,), -x, 7)


class QuickThrows(Throws):
    """The same task, whose evaluators take another seed."""

    def reseed(self, seed: int) -> None:
        self.seed = seed


class Opened(Base):
    """A task that notes the seeds of its film, its walker and its batches."""

    seeds: ClassVar[list[int]] = []

    def film(self, seed: int, *rest: Any) -> "Opened":
        self.seeds.append(seed)
        return self

    walker = open_batches = film


def train(out: Path, task: Any, batch: bool = False, **settings: Any) -> ees_mpi.Run:
    """Train a function with two parameters and one behaviour."""
    section = {"name": "function", "function": task, "parameters": 2, "behavior_dim": 1, "batch": batch}
    return ees_mpi.train({"task": section, **MAXENT}, out, settings={**SMALL, **settings})


def main(out: Path) -> None:
    """Print the error of one task, and the digest of another one with several rollouts."""
    try:
        train(out, of_process)
    except ees_mpi.ConfigError as error:
        print("refused:", error, flush=True)
    assert not out.exists()
    print("digest:", train(out, seeded, **{"task.rollouts": 3})["state_sha256"][-1].decode(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
