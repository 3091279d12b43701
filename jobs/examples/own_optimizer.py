"""Trust, an optimizer of your own: a step of bounded KL divergence, scaled by the signal in an average of gradients.

    ees-mpi train cheetah-maxent --set optimizer.name=custom --set optimizer.function=own_optimizer:Trust \\
        --set optimizer.settings.std=0.02 --set optimizer.settings.l2=0.05       (in the folder of this file)

    u_t  = std g_t                               the gradient in units of the std
    m_t  = mean of u_t, u_(t-1), ...             weights 1, b, b^2, ... with b = 1 - 1 / memory
    s_t  = mean of u_t . m_(t-1), ... / mean of |m_(t-1)|^2, ...     the same weights; between 0 and 1
    d_t  = m_t - l2 std theta
    step = std d_t / |d_t| sqrt(2 nats s_t)

The noise of a new gradient is independent of the average before it. So their product measures the signal in that
average without further rollouts, and s_t estimates the share of signal in its squared length. An average without signal
makes no step. An average without noise makes a step of `nats`: the Kullback-Leibler divergence between the search
distributions after and before the step, |step / std|^2 / 2. The first generation makes no step. `ees-mpi docs signal`
compares it with Adam, which is better on the paper's robots.

It is for populations that learn means only ("normal", "mixture"); give it `population.std`. A mixture has the mean
divergence of its components. Moments are double precision, learned arrays single precision.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]


class Trust:
    """A step of at most `nats` along an average of gradients; the less signal the average has, the shorter it is."""

    def __init__(self, std: float, nats: float = 10_000.0, memory: float = 10.0, l2: float = 0.0):
        """Take the settings; memory: how many gradients are averaged; l2: as in Adam."""
        self._std, self._nats, self._decay, self._l2 = std, nats, 1 - 1 / memory, l2

    def start(self, learned: Arrays) -> Arrays:
        """Return the moments before the first step: the average, the two sums of its signal, the number of steps."""
        if set(learned) != {"mean"}:
            raise ValueError(f"Trust moves means only, and this population learns {', '.join(learned)}")
        return {"average": np.zeros(learned["mean"].shape), "signal": np.zeros(2), "steps": np.array(0)}

    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays) -> tuple[Arrays, Arrays]:
        """Return the next learned arrays and moments."""
        theta, steps = learned["mean"].astype(np.float64), int(moments["steps"])
        scaled, before, signal = self._std * gradient["mean"], moments["average"], moments["signal"]
        if steps:
            signal = self._decay * signal + [(scaled * before).sum(), (before * before).sum()]
        average = before + (scaled - before) * (1 - self._decay) / (1 - self._decay ** (steps + 1))
        direction = average - self._l2 * self._std * theta
        moved = theta + self._std * direction * self._length(direction, signal)
        return {"mean": moved.astype(np.float32)}, {"average": average, "signal": signal, "steps": np.array(steps + 1)}

    def _length(self, direction: NDArray[Any], signal: NDArray[Any]) -> float:
        """Return the length of the step in units of the length of `direction` [K, D]."""
        squared = float(np.square(direction).sum())
        share = min(max(float(signal[0]) / float(signal[1]), 0.0), 1.0) if signal[1] > 0 else 0.0
        return math.sqrt(2 * self._nats * len(direction) * share / squared) if squared > 0 else 0.0
