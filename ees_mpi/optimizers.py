"""Plain ascent and Adam: ascent on `gradient - l2 * theta` for every learned array theta of a population.

Learned arrays are single precision. Moments and all arithmetic are double precision. The moments of the mean have plain
names ("first"). The moments of another learned array begin with its name ("log_std/first").
"""

from typing import Annotated

import msgspec
import numpy as np

from ees_mpi.outcomes import Arrays
from ees_mpi.registry import Family, Part

Rate = Annotated[float, msgspec.Meta(gt=0)]
Decay = Annotated[float, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, lt=1)]

OPTIMIZERS = Family("optimizer", {"ascent": "ees_mpi.optimizers:Ascent", "adam": "ees_mpi.optimizers:Adam"})
MOMENTS = ("first", "second")
quietly = np.errstate(over="ignore", invalid="ignore")  # `training.train` refuses a step that is not finite


class Ascent(Part, frozen=True):
    """Plain gradient ascent: theta + lr * gradient."""

    lr: Rate
    l2: Decay = 0.0

    def start(self, learned: Arrays) -> Arrays:
        """Return the moments before the first step: none."""
        return {}

    @quietly
    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays) -> tuple[Arrays, Arrays]:
        """Return the next learned arrays and moments."""
        following = {}
        for name, theta in learned.items():
            wide = theta.astype(np.float64)
            following[name] = (wide + self.lr * (gradient[name] - self.l2 * wide)).astype(np.float32)
        return following, moments


class Adam(Part, frozen=True):
    """Adam (Kingma and Ba 2015, arXiv:1412.6980) with the defaults of torch, as ascent."""

    lr: Rate = 0.01
    l2: Decay = 0.0
    beta1: Share = 0.9
    beta2: Share = 0.999
    epsilon: Rate = 1e-8

    def start(self, learned: Arrays) -> Arrays:
        """Return the moments before the first step."""
        zeros = {f"{_prefix(name)}{moment}": np.zeros(learned[name].shape) for name in learned for moment in MOMENTS}
        return {**zeros, "steps": np.array(0)}

    @quietly
    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays) -> tuple[Arrays, Arrays]:
        """Return the next learned arrays and moments."""
        steps = int(moments["steps"]) + 1
        size = self.lr / (1 - self.beta1**steps)
        following, grown = {}, {"steps": np.array(steps)}
        for name, theta in learned.items():
            wide = theta.astype(np.float64)
            slope = gradient[name] - self.l2 * wide
            before = [moments[f"{_prefix(name)}{moment}"] for moment in MOMENTS]
            first = self.beta1 * before[0] + (1 - self.beta1) * slope
            second = self.beta2 * before[1] + (1 - self.beta2) * slope * slope
            scale = np.sqrt(second) / np.sqrt(1 - self.beta2**steps) + self.epsilon
            following[name] = (wide + size * (first / scale)).astype(np.float32)
            grown |= {f"{_prefix(name)}first": first, f"{_prefix(name)}second": second}
        return following, grown


def _prefix(name: str) -> str:
    return "" if name == "mean" else f"{name}/"
