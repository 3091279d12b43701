"""The policy: a multilayer perceptron on one flat vector of parameters; and the sums of its observations.

The flat vector is W1, b1, W2, b2, ... with W stored (in, out). A bias lies directly behind its W, like one more row of
it. So a layer is one matrix product: (inputs, 1) @ (W over b). An activation follows each layer: by default tanh after
hidden layers, none after the output. The action is scale * output + shift.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from ees_mpi.arrays import Floats, Singles

HIDDEN = (256, 256)
HIDDEN_NORM = 1.0
OUTPUT_NORM = 0.01
CLIP = 5.0

Activation = Literal["tanh", "relu", "silu", "elu", "identity"]

ACTIVATIONS: dict[str, Callable[..., object]] = {
    "tanh": np.tanh,
    "relu": lambda x, out: np.maximum(x, 0, out=out),
    "silu": lambda x, out: np.divide(x, 1 + np.exp(-x), out=out),
    "elu": lambda x, out: np.add(np.maximum(x, 0), np.expm1(np.minimum(x, 0)), out=out),
    "identity": lambda x, out: None,
}


def by_layer(activation: str | Sequence[str], layers: int) -> tuple[str, ...]:
    """Return the activation of each layer; one name is that of all hidden layers, before a linear output."""
    if isinstance(activation, str):
        return (*[activation] * (layers - 1), "identity")
    if len(activation) != layers:
        raise ValueError(
            f"task.activation: expected one name for all hidden layers, or one for each of the {layers} layers "
            f"(the last one is the output); got {list(activation)}"
        )
    return tuple(activation)


def observation_sums(observations: Sequence[Singles]) -> Floats:
    """Return count, sums and sums of squares [1 + 2 O] of the observations of a rollout."""
    seen = np.array(observations, dtype=np.float64, order="C")
    return np.concatenate([[len(seen)], seen.sum(axis=0), np.square(seen).sum(axis=0)])


def parameter_count(sizes: Sequence[int]) -> int:
    """Return the number of weights and biases of a network with these layer sizes."""
    return sum((fan_in + 1) * fan_out for fan_in, fan_out in pairwise(sizes))


class PolicyPlugin(Protocol):
    """A network from observations to actions: `Policy(observations, actions, **task.policy_settings)`."""

    count: int  # D

    def initial(self, generator: np.random.Generator) -> Singles:
        """Draw the first mean [D]."""

    def load(self, flat: Singles) -> None:
        """Act with these parameters [D] from now on; called before each rollout, so forget the last rollout."""

    def act(self, observation: Singles) -> Singles:
        """Return the action [A] for a normalised observation [O]."""


class Policy(PolicyPlugin, Protocol):
    """A network that normalises its observations."""

    def normalise(self, mean: Floats, std: Floats) -> None:
        """See observations as (x - mean) / std, clipped to +-5, from now on."""


class MLP:
    """A perceptron. It works on views of a flat vector."""

    def __init__(
        self,
        sizes: Sequence[int],
        clip: float = CLIP,
        activation: str | Sequence[str] = "tanh",
        scale: Sequence[float] = (),
        shift: Sequence[float] = (),
    ) -> None:
        """Set the sizes of all layers, from observation to action: (26, 256, 256, 6); `clip`: 0 is none.

        activation: see `by_layer`; scale, shift: of the outputs, one number each or one for each output
        """
        self.sizes = tuple(int(size) for size in sizes)
        self._shapes = [(fan_in + 1, fan_out) for fan_in, fan_out in pairwise(self.sizes)]
        self.count = parameter_count(self.sizes)
        self._inputs = [np.ones(rows, np.float32) for rows, _ in self._shapes]  # the last 1 multiplies the bias
        self._observation = self._inputs[0][:-1]
        self._high = np.full(self.sizes[0], clip or np.inf, np.float32)
        self._low = -self._high
        names = by_layer(activation, len(self._shapes))
        self._activations = [ACTIVATIONS[name] for name in names]
        self._scale, self._shift = np.array(scale or 1, np.float32), np.array(shift or 0, np.float32)
        self._plain_output = names[-1] == "identity" and not scale and not shift
        self.normalise(np.zeros(self.sizes[0]), np.ones(self.sizes[0]))

    def initial(self, generator: np.random.Generator) -> Singles:
        """Draw initial parameters: normal weights, columns scaled to norm 1 (output layer: 0.01), biases 0."""
        parts = []
        for layer, (rows, columns) in enumerate(self._shapes, start=1):
            weights = generator.standard_normal((rows - 1, columns))
            norm = OUTPUT_NORM if layer == len(self._shapes) else HIDDEN_NORM
            weights *= norm / np.sqrt(np.square(weights).sum(axis=0))
            parts += [weights.ravel(), np.zeros(columns)]
        return np.concatenate(parts).astype(np.float32)

    def load(self, flat: Singles) -> None:
        """Act with these parameters from now on; the vector is not copied, so do not change it."""
        matrices = self.matrices(flat)
        outputs = [inputs[:-1] for inputs in self._inputs[1:]]
        self._hidden = list(zip(self._inputs, matrices, outputs, self._activations, strict=False))
        self._last, self._output = self._inputs[-1], matrices[-1]

    def matrices(self, flat: Singles) -> list[Singles]:
        """Return the layers of a flat vector as views (inputs + 1, outputs); the last row is the bias."""
        ends = np.cumsum([math.prod(shape) for shape in self._shapes])[:-1]
        return [part.reshape(shape) for part, shape in zip(np.split(flat, ends), self._shapes, strict=True)]

    def normalise(self, mean: ArrayLike, std: ArrayLike) -> None:
        self._mean, self._std = (np.array(statistic, dtype=np.float32) for statistic in (mean, std))

    def act(self, observation: Singles) -> Singles:
        seen = self._observation
        np.subtract(observation, self._mean, out=seen)
        np.divide(seen, self._std, out=seen)
        np.minimum(seen, self._high, out=seen)
        np.maximum(seen, self._low, out=seen)
        for inputs, weights, outputs, activate in self._hidden:
            inputs.dot(weights, outputs)
            activate(outputs, out=outputs)
        action: Singles = self._last.dot(self._output)
        if self._plain_output:
            return action
        self._activations[-1](action, out=action)
        return self._scale * action + self._shift
