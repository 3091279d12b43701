"""Adam on `gradient - l2 * theta` for each learned array of a population."""

from typing import Annotated

import numpy as np

from ees_mpi.arrays import Arrays
from ees_mpi.registry import key
from ees_mpi.strategy.optimizers.base import Decay, Optimizer, Rate, l2_of, moved, prefix, quietly

MOMENTS = ("first", "second")
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class Adam(Optimizer, frozen=True):
    """Adam (Kingma and Ba 2015, arXiv:1412.6980) with the defaults of torch, as ascent."""

    lr: Rate = 0.01
    l2: Decay = 0.0
    correct_first: Annotated[
        bool,
        key("Whether the running mean of gradients is bias-corrected; false: the first step is a tenth as long."),
    ] = True

    def start(self, learned: Arrays) -> Arrays:
        zeros = {f"{prefix(name)}{moment}": np.zeros(learned[name].shape) for name in learned for moment in MOMENTS}
        return {**zeros, "steps": np.array(0)}

    @quietly
    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays) -> tuple[Arrays, Arrays]:
        steps = int(moments["steps"]) + 1
        following, grown = {}, {"steps": np.array(steps)}
        for name, theta in learned.items():
            size = self.lr / (1 - BETA1**steps) if self.correct_first else self.lr
            slope = gradient[name] - l2_of(self, name) * theta.astype(np.float64)
            before = [moments[f"{prefix(name)}{moment}"] for moment in MOMENTS]
            first = BETA1 * before[0] + (1 - BETA1) * slope
            second = BETA2 * before[1] + (1 - BETA2) * slope * slope
            scale = np.sqrt(second) / np.sqrt(1 - BETA2**steps) + EPSILON
            following[name] = moved(name, theta, size * (first / scale))
            grown |= {f"{prefix(name)}first": first, f"{prefix(name)}second": second}
        return following, grown
