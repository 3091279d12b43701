"""What the optimizers share: their members, their keys, and the step of a learned array.

The array `std` holds standard deviations: its gradient is that of its logarithm, the step multiplies it, and L2
does not apply to it.

Learned arrays are single precision. Moments and all arithmetic are double precision. The moments of the mean have plain
names ("first"). The moments of another learned array begin with its name ("std/first").
"""

from typing import Annotated, Any, Protocol

import numpy as np

from ees_mpi.arrays import Arrays, Floats, Singles
from ees_mpi.registry import Part, key

Rate = Annotated[float, key("The learning rate.", gt=0)]
Decay = Annotated[
    float, key("L2 decay: `l2` times the mean is subtracted from its gradient; a learned std has none.", ge=0)
]
quietly = np.errstate(over="ignore", invalid="ignore")  # `run.loop.seal` refuses a step that is not finite


class OptimizerPlugin(Protocol):
    """Moves the learned arrays along their gradients: `Optimizer(**settings)`."""

    def start(self, learned: Arrays) -> Arrays:
        """Return the moments before the first step."""

    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays) -> tuple[Arrays, Arrays]:
        """Return the next learned arrays and moments; change nothing in place."""


class Optimizer(Part, frozen=True):
    """An optimizer: a subclass defines the members of `OptimizerPlugin`."""

    def try_out(self, learned: Arrays) -> None:
        """Find errors of the user's code before the run file is touched."""

    def start(self, learned: Arrays) -> Arrays:
        raise NotImplementedError

    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays) -> tuple[Arrays, Arrays]:
        raise NotImplementedError


def l2_of(optimizer: Any, name: str) -> float:
    """Return the L2 coefficient of a learned array."""
    return 0.0 if name == "std" else float(optimizer.l2)


def moved(name: str, theta: Singles, step: Floats) -> Singles:
    """Return a learned array after a step; the step of `std` is one of its logarithm."""
    wide = theta.astype(np.float64)
    return (wide * np.exp(step) if name == "std" else wide + step).astype(np.float32)


def prefix(name: str) -> str:
    """Return the beginning of the names of the moments of a learned array."""
    return "" if name == "mean" else f"{name}/"
