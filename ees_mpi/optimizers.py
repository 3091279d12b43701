"""Plain ascent and Adam on flat vectors: ascent on `gradient - l2 * theta`.

Means are single precision; moments and all arithmetic are double.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ees_mpi.outcomes import Floats, Singles
from ees_mpi.registry import Family, Part

Moments = Mapping[str, NDArray[Any]]
Rate = Annotated[float, msgspec.Meta(gt=0)]
Share = Annotated[float, msgspec.Meta(ge=0, lt=1)]

OPTIMIZERS = Family("optimizer", {"ascent": "ees_mpi.optimizers:Ascent", "adam": "ees_mpi.optimizers:Adam"})


class Ascent(Part, frozen=True):
    """theta + lr * gradient."""

    lr: Rate
    l2: Annotated[float, msgspec.Meta(ge=0)] = 0.0

    def start(self, theta: Singles) -> Moments:
        """Return the moments before the first step: none."""
        return {}

    def step(self, theta: Singles, gradient: Floats, moments: Moments) -> tuple[Singles, Moments]:
        """Return the next theta and moments."""
        wide = theta.astype(np.float64)
        return (wide + self.lr * (gradient - self.l2 * wide)).astype(np.float32), moments


class Adam(Part, frozen=True):
    """Adam (Kingma and Ba 2015, arXiv:1412.6980) with torch's defaults, uphill."""

    lr: Rate = 0.01
    l2: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    beta1: Share = 0.9
    beta2: Share = 0.999
    epsilon: Rate = 1e-8

    def start(self, theta: Singles) -> Moments:
        """Return the moments before the first step."""
        zeros = np.zeros(theta.shape)
        return {"first": zeros, "second": zeros.copy(), "steps": np.array(0)}

    def step(self, theta: Singles, gradient: Floats, moments: Moments) -> tuple[Singles, Moments]:
        """Return the next theta and moments."""
        wide = theta.astype(np.float64)
        slope = gradient - self.l2 * wide
        first = self.beta1 * moments["first"] + (1 - self.beta1) * slope
        second = self.beta2 * moments["second"] + (1 - self.beta2) * slope * slope
        steps = int(moments["steps"]) + 1
        size = self.lr / (1 - self.beta1**steps)
        scale = np.sqrt(second) / np.sqrt(1 - self.beta2**steps) + self.epsilon
        theta = (wide + size * (first / scale)).astype(np.float32)
        return theta, {"first": first, "second": second, "steps": np.array(steps)}
