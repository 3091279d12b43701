"""The policy: a multilayer perceptron on one flat vector, and the observation statistics that it is given.

The flat vector is W1, b1, W2, b2, ... with W stored (in, out). A bias thus lies where one more row of its
W would, so a layer is one product: (inputs, 1) @ (W over b).
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float32]
Floats = NDArray[np.float64]

HIDDEN = (256, 256)
HIDDEN_NORM = 1.0
OUTPUT_NORM = 0.01
CLIP = 5.0
VARIANCE_FLOOR = 1e-2


def observation_sums(observations: Sequence[Vector]) -> Floats:
    """Sum up the observations of a rollout: count, sums and sums of squares, float64[1 + 2 O]."""
    seen = np.array(observations, dtype=np.float64, order="C")
    return np.concatenate([[len(seen)], seen.sum(axis=0), np.square(seen).sum(axis=0)])


def mean_std(sums: Floats) -> tuple[Floats, Floats]:
    """Give mean and standard deviation per component from sums [1 + 2 O]; 0 and 1 when nothing was seen."""
    size = len(sums) // 2
    count, total, squares = sums[0], sums[1 : 1 + size], sums[1 + size :]
    if count == 0:
        return np.zeros(size), np.ones(size)
    mean = total / count
    variance = squares / count - np.square(mean)
    return mean, np.sqrt(np.maximum(variance, VARIANCE_FLOOR))


def parameter_count(sizes: Sequence[int]) -> int:
    """Count the weights and biases of a network with these layer sizes."""
    return sum((fan_in + 1) * fan_out for fan_in, fan_out in pairwise(sizes))


class MLP:
    """A perceptron with tanh hidden layers and a linear output, evaluated on views of a flat vector."""

    def __init__(self, sizes: Sequence[int]) -> None:
        """Take the sizes of all layers, from observation to action: (26, 256, 256, 6)."""
        self.sizes = tuple(int(size) for size in sizes)
        if len(self.sizes) < 2 or min(self.sizes) < 1:
            raise ValueError(f"A policy needs the sizes of observation, hidden layers and action; got {self.sizes}.")
        self._shapes = [(fan_in + 1, fan_out) for fan_in, fan_out in pairwise(self.sizes)]
        self.count = parameter_count(self.sizes)
        self._inputs = [np.ones(rows, np.float32) for rows, _ in self._shapes]  # the last 1 is the bias's
        self._observation = self._inputs[0][:-1]
        self._high = np.full(self.sizes[0], CLIP, np.float32)
        self._low = -self._high
        self.normalise(np.zeros(self.sizes[0]), np.ones(self.sizes[0]))

    def initial(self, generator: np.random.Generator) -> Vector:
        """Draw a starting vector: normal weights, columns scaled to norm 1 (output: 0.01), biases 0."""
        parts = []
        for layer, (rows, columns) in enumerate(self._shapes, start=1):
            weights = generator.standard_normal((rows - 1, columns))
            norm = OUTPUT_NORM if layer == len(self._shapes) else HIDDEN_NORM
            weights *= norm / np.sqrt(np.square(weights).sum(axis=0))
            parts += [weights.ravel(), np.zeros(columns)]
        return np.concatenate(parts).astype(np.float32)

    def load(self, flat: Vector) -> None:
        """Act from now on with these parameters; the vector is not copied, so leave it as it is."""
        if flat.shape != (self.count,) or flat.dtype != np.float32 or not flat.flags.c_contiguous:
            raise ValueError(
                f"A policy of sizes {self.sizes} is a contiguous float32 vector of shape ({self.count},); "
                f"got {flat.dtype} of shape {flat.shape} and strides {flat.strides}."
            )
        matrices = self.matrices(flat)
        outputs = [inputs[:-1] for inputs in self._inputs[1:]]
        self._hidden = list(zip(self._inputs, matrices, outputs, strict=False))
        self._last, self._output = self._inputs[-1], matrices[-1]

    def matrices(self, flat: Vector) -> list[Vector]:
        """Return the layers of a flat vector as views (inputs + 1, outputs): the weights over the bias."""
        ends = np.cumsum([math.prod(shape) for shape in self._shapes])[:-1]
        return [part.reshape(shape) for part, shape in zip(np.split(flat, ends), self._shapes, strict=True)]

    def normalise(self, mean: ArrayLike, std: ArrayLike) -> None:
        """See observations from now on as (x - mean) / std, clipped to +-5."""
        self._mean, self._std = (np.array(statistic, dtype=np.float32) for statistic in (mean, std))
        if self._mean.shape != (self.sizes[0],) or self._std.shape != (self.sizes[0],):
            raise ValueError(
                f"Mean and standard deviation of the observations have shape ({self.sizes[0]},); "
                f"got {self._mean.shape} and {self._std.shape}."
            )

    def act(self, observation: Vector) -> Vector:
        """Choose the action, float32[sizes[-1]], for an observation, float32[sizes[0]]."""
        seen = self._observation
        np.subtract(observation, self._mean, out=seen)
        np.divide(seen, self._std, out=seen)
        np.minimum(seen, self._high, out=seen)
        np.maximum(seen, self._low, out=seen)
        for inputs, weights, outputs in self._hidden:
            inputs.dot(weights, outputs)
            np.tanh(outputs, out=outputs)
        action: Vector = self._last.dot(self._output)
        return action
