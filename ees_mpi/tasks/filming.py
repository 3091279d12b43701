"""Looking at a rollout: what a task offers whose rollouts can be drawn.

A task that can be drawn has `film(seed, view)`, which returns an evaluator that is also `Drawable`; a task of the
user's own may have it, too. Its outcomes have the bits of those of `open(seed)`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ees_mpi.errors import RunFileError
from ees_mpi.tasks import Evaluator

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class View:
    """How a rollout is looked at: the size of pictures in pixels, and from where."""

    width: int = 320
    height: int = 240
    point: tuple[float, float] | None = None  # on the floor, at which the camera looks; None: it follows the robot
    distance: float = 3.6  # of the camera from that point


class Drawable(Evaluator, Protocol):
    """An evaluator whose rollouts can be looked at while they go on."""

    on_step: Callable[[int], None] | None  # called with the number of steps done, from 0 on
    step_seconds: float  # how long a step is for the robot

    def place(self) -> tuple[float, ...]:
        """Where the robot is now, as its behaviour counts it; empty where a task has no such thing."""

    def picture(self) -> Pixels:
        """Draw what there is now, as uint8[height, width, 3]; not always of the size that was asked for."""


def film(task: Any, name: str, seed: int, view: View) -> Drawable:
    """Open a task for drawing, or say that there is nothing to draw; `name`: how the user knows the task."""
    filming = getattr(getattr(task, "task", task), "film", None)  # of a custom task: of the user's object
    if filming is None:
        raise RunFileError(f"the task {name} has nothing to draw; expected a walking robot or a Gymnasium environment")
    drawable: Drawable = filming(seed, view)
    return drawable
