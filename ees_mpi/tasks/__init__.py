"""Tasks: what turns parameters into an outcome.

A task is a config section. `open` gives what evaluates individuals on this rank: an `Evaluator`.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ees_mpi.outcomes import Floats, Outcome, Singles
from ees_mpi.registry import Family


class Evaluator(Protocol):
    """Evaluates individuals, one at a time; the outcome depends on the arguments only, never on history."""

    def evaluate(
        self,
        index: int,
        parameters: Singles,
        observation_mean: Floats,
        observation_std: Floats,
        observe: bool,
    ) -> Outcome:
        """Roll one individual out; `observe`: also return the sums of its observations."""

    def close(self) -> None:
        """Let go of what the task holds."""


class Walker(Protocol):
    """A robot that is led step by step: what MAML learns from. A task that has one returns it from `walker(seed)`."""

    position: Sequence[float]  # x, or x and y, or more; the behaviour is where it ends

    def reset(self) -> Singles:
        """Go back to the start, always the same one, and observe."""

    def step(self, action: Singles) -> tuple[Singles, bool]:
        """Act for one time step; return the observation and whether the rollout is over."""

    def close(self) -> None:
        """Let go of what the walker holds."""


class Task(Protocol):
    """What training needs to know of a task before it evaluates anything."""

    @property
    def parameters(self) -> int: ...  # D: the length of an individual
    @property
    def behavior_dim(self) -> int: ...  # B
    @property
    def observation_dim(self) -> int: ...  # O; 0 where nothing is normalised
    @property
    def observation_share(self) -> float: ...  # of the rollouts, that feed the statistics; unused where O is 0
    def initial(self, generator: np.random.Generator) -> Singles: ...
    def open(self, seed: int) -> Evaluator: ...


TASKS = Family(
    "task",
    {
        "interference": "ees_mpi.tasks.interference:Interference",
        "cheetah": "ees_mpi.tasks.locomotion:Cheetah",
        "ant": "ees_mpi.tasks.locomotion:Ant",
        "gymnasium": "ees_mpi.tasks.gymnasium:Gymnasium",
        "custom": "ees_mpi.tasks.custom:Custom",
    },
)
