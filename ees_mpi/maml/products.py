"""Hessian products of several tasks side by side, in closed form: on a GPU half the work of differentiating twice.

Pearlmutter 1994, "Fast exact multiplication by the Hessian". R is the derivative along a vector v. With the inputs h of
a layer, its weights W (V: those of v), its outputs a = h W + b, and the derivatives d of the function by a:

    forward     R a = h V + (R h) W + b_v,          R h = (1 - h^2) R a
    backward    R (gradient of W) = (R h)^T d + h^T (R d),       R d = (1 - h^2) (R d W^T + d V^T) - 2 h (d W^T) R h
"""

from collections.abc import Sequence
from itertools import pairwise

from ees_mpi.maml.learning import LearningTask, Product, Steps
from ees_mpi.maml.network import Tensor, log_std, torch


class LearningTasks(LearningTask):
    """Several tasks side by side; each result is the sum over them."""

    def _curvatures(self, keep: bool) -> tuple[Product, Product]:
        sizes = self._learner.sizes
        inner = ObjectiveCurvature(sizes, self._theta, self._before)
        return inner.times, DivergenceCurvature(sizes, self._adapted, self._after).times


class Networks:
    """N networks at theta [N, D], with the inputs [N, M, ...] of all their layers."""

    def __init__(self, sizes: Sequence[int], theta: Tensor, observations: Tensor):
        self.sizes, self.weights = sizes, layers_of(sizes, theta)
        self.inputs, self.slopes = [observations], [torch.empty(0)]
        for weights, bias in self.weights:
            self.mean = torch.baddbmm(bias, self.inputs[-1], weights)
            self.inputs.append(torch.tanh(self.mean))
            self.slopes.append(1 - self.inputs[-1].square())
        del self.inputs[-1], self.slopes[-1]

    def forward(self, vector: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return R h of all layers but the first, whose R h is 0, and R of the mean actions."""
        changes: list[Tensor] = []
        for layer, (weights, bias) in enumerate(layers_of(self.sizes, vector)):
            change = torch.baddbmm(bias, self.inputs[layer], weights)
            if layer:
                changes[-1].mul_(self.slopes[layer])
                change.baddbmm_(changes[-1], self.weights[layer][0])
            changes.append(change)
        return changes[:-1], changes[-1]


class ObjectiveCurvature:
    """Multiplies the Hessian of the objective J at theta with vectors [N, D]; see `learning.Learner.objective`."""

    def __init__(self, sizes: Sequence[int], theta: Tensor, steps: Steps):
        self._networks = networks = Networks(sizes, theta, steps.observations)
        self._factor = (steps.advantages * steps.weight)[..., None] * torch.exp(-2 * log_std(sizes, theta))[:, None]
        self._error = steps.actions - networks.mean
        self._derivatives, self._bends = [self._factor * self._error], []  # last layer first
        for layer in range(len(sizes) - 2, 0, -1):
            back = self._derivatives[-1] @ networks.weights[layer][0].mT
            self._bends.append(-2 * networks.inputs[layer] * back)
            self._derivatives.append(back.mul_(networks.slopes[layer]))

    def times(self, vector: Tensor) -> Tensor:
        """Return the products."""
        networks, last = self._networks, len(self._derivatives) - 1
        changes, change = networks.forward(vector)
        along = log_std(networks.sizes, vector)[:, None]
        parts = [-2 * (self._derivatives[0] * (change + self._error * along)).sum(1)]
        turned = -self._factor * (change + 2 * self._error * along)
        for place, (weights, _) in enumerate(reversed(layers_of(networks.sizes, vector))):
            layer, derivative = last - place, self._derivatives[place]
            gradient = networks.inputs[layer].mT @ turned
            if layer:
                gradient.baddbmm_(changes[layer - 1].mT, derivative)
            parts += [turned.sum(1), gradient.flatten(1)]
            if layer:
                back = (turned @ networks.weights[layer][0].mT).baddbmm_(derivative, weights.mT)
                turned = back.mul_(networks.slopes[layer]).addcmul_(self._bends[place], changes[layer - 1])
        return torch.cat(parts[::-1], 1)


class DivergenceCurvature:
    """Multiplies the Hessian of KL(old || theta) at the old theta with vectors [N, D]; there it is J^T F J.

    J is the derivative of means and log standard deviations, F is diagonal: std^-2 for means, 2 for log deviations.
    """

    def __init__(self, sizes: Sequence[int], theta: Tensor, steps: Steps):
        self._networks, self._weight = Networks(sizes, theta, steps.observations), steps.weight[..., None]
        self._factor = self._weight * torch.exp(-2 * log_std(sizes, theta))[:, None]

    def times(self, vector: Tensor) -> Tensor:
        """Return the products."""
        networks = self._networks
        derivative = self._factor * networks.forward(vector)[1]
        parts = [2 * self._weight.sum(1) * log_std(networks.sizes, vector)]
        for layer in range(len(networks.weights) - 1, -1, -1):
            parts += [derivative.sum(1), (networks.inputs[layer].mT @ derivative).flatten(1)]
            if layer:
                derivative = (derivative @ networks.weights[layer][0].mT).mul_(networks.slopes[layer])
        return torch.cat(parts[::-1], 1)


def layers_of(sizes: Sequence[int], theta: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return weights [N, in, out] and biases [N, 1, out] of the layers of flat vectors [N, D]."""
    layers, start = [], 0
    for fan_in, fan_out in pairwise(sizes):
        end = start + fan_in * fan_out
        layers.append((theta[:, start:end].view(-1, fan_in, fan_out), theta[:, None, end : end + fan_out]))
        start = end + fan_out
    return layers
