"""Trust: a step of bounded KL divergence along an average of past gradients, scaled by the signal of that average.

    u_t  = std g_t                               the gradient in units of the std
    m_t  = mean of u_t, u_(t-1), ...             weights 1, b, b^2, ... with b = 1 - 1 / memory
    s_t  = mean of u_t . m_(t-1), ... / mean of |m_(t-1)|^2, ...     the same weights; between 0 and 1
    d_t  = m_t - l2 std theta
    step = std d_t / |d_t| sqrt(2 nats s_t)

The noise of a new gradient is independent of the average before it. So their product measures the signal in that
average without further rollouts, and s_t estimates the share of signal in its squared length. An average without signal
makes no step. An average without noise makes a step of `nats`: the Kullback-Leibler divergence between the search
distributions after and before the step, |step / std|^2 / 2, which means the same for every D and std. The first
generation makes no step, because there is no average before it.

A mixture has the mean divergence of its components. The array `std` has its own average and its own step. A small step
x of the logarithm of a std has the divergence x^2, so its unit is 1 / sqrt(2).
"""

import math
from typing import Annotated

import numpy as np

from ees_mpi.optimizers.base import Decay, moved, prefix, quietly
from ees_mpi.outcomes import Arrays, Floats
from ees_mpi.registry import Part, key


class Trust(Part, frozen=True):
    """A step of at most `nats` along an average of gradients; the less signal the average has, the shorter it is."""

    nats: Annotated[
        float, key("The KL divergence of a step along an average without noise.", "nats", gt=0, le=1e30)
    ] = 10_000.0
    memory: Annotated[float, key("How many gradients are averaged.", "generations", ge=1, le=1e9)] = 10.0
    l2: Decay = 0.0

    def start(self, learned: Arrays) -> Arrays:
        """Return the moments before the first step: for each array the average and the two sums of its signal."""
        averages = {f"{prefix(name)}average": np.zeros(theta.shape) for name, theta in learned.items()}
        sums = {f"{prefix(name)}signal": np.zeros(2) for name in learned}
        return {**averages, **sums, "steps": np.array(0)}

    @quietly
    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays, std: float = 1.0) -> tuple[Arrays, Arrays]:
        """Return the next learned arrays and moments."""
        steps = int(moments["steps"])
        following, grown = {}, {"steps": np.array(steps + 1)}
        for name, theta in learned.items():
            unit = math.sqrt(0.5) if name == "std" else np.asarray(learned.get("std", std), np.float64)
            l2 = 0.0 if name == "std" else self.l2
            scaled = unit * gradient[name]
            before, signal = moments[f"{prefix(name)}average"], moments[f"{prefix(name)}signal"]
            if steps:
                signal = self._decay * signal + [(scaled * before).sum(), (before * before).sum()]
            average = before + (scaled - before) * (1 - self._decay) / (1 - self._decay ** (steps + 1))
            direction = average - l2 * unit * theta
            following[name] = moved(name, theta, unit * direction * self._length(direction, signal))
            grown |= {f"{prefix(name)}average": average, f"{prefix(name)}signal": signal}
        return following, grown

    @property
    def _decay(self) -> float:
        return 1 - 1 / self.memory

    def _length(self, direction: Floats, signal: Floats) -> float:
        """Return the length of the step in units of the length of `direction` [K, D]."""
        squared = float(np.square(direction).sum())
        share = min(max(float(signal[0]) / float(signal[1]), 0.0), 1.0) if signal[1] > 0 else 0.0
        return math.sqrt(2 * self.nats * len(direction) * share / squared) if squared > 0 else 0.0
