"""Tasks: what turns parameters into an outcome.

A task is a config section. `open` gives what evaluates individuals on this rank: an `Evaluator`.
"""

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
