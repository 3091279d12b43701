"""Adam on `gradient - l2 * theta` for each learned array of a population."""

from typing import Annotated

import numpy as np

from ees_mpi.optimizers.base import Decay, Rate, StdRate, moved, prefix, quietly, rates_of
from ees_mpi.outcomes import Arrays
from ees_mpi.registry import Part, key

MOMENTS = ("first", "second")


class Adam(Part, frozen=True):
    """Adam (Kingma and Ba 2015, arXiv:1412.6980) with the defaults of torch, as ascent."""

    lr: Rate = 0.01
    l2: Decay = 0.0
    beta1: Annotated[float, key("The decay of the running mean of gradients.", ge=0, lt=1)] = 0.9
    beta2: Annotated[float, key("The decay of the running mean of squared gradients.", ge=0, lt=1)] = 0.999
    epsilon: Annotated[float, key("Is added to the root of the mean square, so that it is never 0.", gt=0)] = 1e-8
    std_lr: StdRate = None
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
            rate, l2 = rates_of(self, name)
            size = rate / (1 - self.beta1**steps) if self.correct_first else rate
            slope = gradient[name] - l2 * theta.astype(np.float64)
            before = [moments[f"{prefix(name)}{moment}"] for moment in MOMENTS]
            first = self.beta1 * before[0] + (1 - self.beta1) * slope
            second = self.beta2 * before[1] + (1 - self.beta2) * slope * slope
            scale = np.sqrt(second) / np.sqrt(1 - self.beta2**steps) + self.epsilon
            following[name] = moved(name, theta, size * (first / scale))
            grown |= {f"{prefix(name)}first": first, f"{prefix(name)}second": second}
        return following, grown
