"""Plain ascent and Adam: ascent on `gradient - l2 * theta` for every learned array theta of a population.

The array `std` holds standard deviations: its gradient is that of its logarithm, the step multiplies it, its learning
rate is `std_lr`, and L2 does not apply to it.

Learned arrays are single precision. Moments and all arithmetic are double precision. The moments of the mean have plain
names ("first"). The moments of another learned array begin with its name ("std/first").
"""

from typing import Annotated

import msgspec
import numpy as np

from ees_mpi.outcomes import Arrays, Floats, Singles
from ees_mpi.registry import Family, Part

Rate = Annotated[float, msgspec.Meta(gt=0)]
Decay = Annotated[float, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, lt=1)]

OPTIMIZERS = Family("optimizer", {"ascent": "ees_mpi.optimizers:Ascent", "adam": "ees_mpi.optimizers:Adam"})
MOMENTS = ("first", "second")


class Ascent(Part, frozen=True):
    """Plain gradient ascent: theta + lr * gradient."""

    lr: Rate
    l2: Decay = 0.0
    std_lr: Rate | None = None  # of the log std, if the population learns it; None: lr

    def start(self, learned: Arrays) -> Arrays:
        """Return the moments before the first step: none."""
        return {}

    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays) -> tuple[Arrays, Arrays]:
        """Return the next learned arrays and moments."""
        following = {}
        for name, theta in learned.items():
            rate, l2 = _rates(self, name)
            slope = gradient[name] - l2 * theta.astype(np.float64)
            following[name] = _moved(name, theta, rate * slope)
        return following, moments


class Adam(Part, frozen=True):
    """Adam (Kingma and Ba 2015, arXiv:1412.6980) with the defaults of torch, as ascent."""

    lr: Rate = 0.01
    l2: Decay = 0.0
    beta1: Share = 0.9
    beta2: Share = 0.999
    epsilon: Rate = 1e-8
    std_lr: Rate | None = None  # of the log std, if the population learns it; None: lr

    def start(self, learned: Arrays) -> Arrays:
        """Return the moments before the first step."""
        zeros = {f"{_prefix(name)}{moment}": np.zeros(learned[name].shape) for name in learned for moment in MOMENTS}
        return {**zeros, "steps": np.array(0)}

    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays) -> tuple[Arrays, Arrays]:
        """Return the next learned arrays and moments."""
        steps = int(moments["steps"]) + 1
        following, grown = {}, {"steps": np.array(steps)}
        for name, theta in learned.items():
            rate, l2 = _rates(self, name)
            size = rate / (1 - self.beta1**steps)
            slope = gradient[name] - l2 * theta.astype(np.float64)
            before = [moments[f"{_prefix(name)}{moment}"] for moment in MOMENTS]
            first = self.beta1 * before[0] + (1 - self.beta1) * slope
            second = self.beta2 * before[1] + (1 - self.beta2) * slope * slope
            scale = np.sqrt(second) / np.sqrt(1 - self.beta2**steps) + self.epsilon
            following[name] = _moved(name, theta, size * (first / scale))
            grown |= {f"{_prefix(name)}first": first, f"{_prefix(name)}second": second}
        return following, grown


def _rates(optimizer: Ascent | Adam, name: str) -> tuple[float, float]:
    """Return the learning rate and the L2 coefficient of a learned array."""
    return (optimizer.std_lr or optimizer.lr, 0.0) if name == "std" else (optimizer.lr, optimizer.l2)


def _moved(name: str, theta: Singles, step: Floats) -> Singles:
    """Return a learned array after a step; the step of `std` is one of its logarithm."""
    wide = theta.astype(np.float64)
    with np.errstate(over="ignore"):  # training refuses an update that is not finite
        moved: Singles = (wide * np.exp(step) if name == "std" else wide + step).astype(np.float32)
    return moved


def _prefix(name: str) -> str:
    return "" if name == "mean" else f"{name}/"
