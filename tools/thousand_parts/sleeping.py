"""Rollouts that sleep. Their times have a heavy tail and are keyed by the individual, so that they repeat."""

import os
import random
import time
import zlib

import numpy as np
from numpy.typing import NDArray

MEAN = float(os.environ.get("SLEEP_SECONDS", "0.01"))
SIGMA = 1.0  # of the logarithm: among 2,000 rollouts the slowest takes about 20 times the mean
TIMES: list[float] = []  # of this process


def rollout(z: NDArray[np.float32]) -> NDArray[np.float32]:
    """Sleep, and return two parameters as the behaviour."""
    drawn = random.Random(zlib.crc32(z[:8].tobytes()))
    TIMES.append(MEAN * drawn.lognormvariate(-SIGMA * SIGMA / 2, SIGMA))
    time.sleep(TIMES[-1])
    return z[:2]
