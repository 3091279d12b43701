"""The derivatives of the outer step, in closed form, for N tasks side by side.

With theta' = theta + lr grad J(theta), the Jacobian of the adaptation is I + lr H. H is the Hessian of the surrogate J
of the sampled steps. As usual, it leaves out the sampling term: that other rollouts would be drawn at another theta.

    gradient             (I + lr H) grad L(theta')
    KL's Hessian times v (I + lr H) F (I + lr H) v        F: the Hessian of the KL at theta'

The second equation holds for this surrogate at the old theta, because the KL and its gradient are zero there. It is
used only there.

Hessian products follow Pearlmutter 1994, "Fast exact multiplication by the Hessian". R is the derivative along a vector
v. With the inputs h of a layer, its weights W (V: those of v), its outputs a = h W + b, and the derivatives d of the
function by a:

    forward     R a = h V + (R h) W + b_v,          R h = (1 - h^2) R a
    backward    R (gradient of W) = (R h)^T d + h^T (R d),       R d = (1 - h^2) (R d W^T + d V^T) - 2 h (d W^T) R h

theta [N, D] is the flat vector of the network, in the layout of `policies.MLP`, and then the log standard deviations. A
CPU rank computes one task after the other (N = 1), so that the bits do not depend on the number of ranks.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from ees_mpi.arrays import Floats, Singles
from ees_mpi.maml.rollouts import Steps


class Networks:
    """N tanh networks at theta [N, D], with the inputs [N, M, ...] of all their layers."""

    def __init__(self, sizes: Sequence[int], theta: Tensor, observations: Tensor):
        self.sizes, self.layers = sizes, layers_of(sizes, theta)
        self.log_std = theta[:, None, -sizes[-1] :]  # [N, 1, A]
        self.inputs = [observations]
        for weights, bias in self.layers[:-1]:
            self.inputs.append(torch.baddbmm(bias, self.inputs[-1], weights).tanh_())
        weights, bias = self.layers[-1]
        self.mean = torch.baddbmm(bias, self.inputs[-1], weights)  # [N, M, A]

    @cached_property
    def slopes(self) -> list[Tensor]:
        """The derivatives 1 - h^2 of the inputs of all layers; the observations have none."""
        return [torch.empty(0), *(inputs.square().neg_().add_(1) for inputs in self.inputs[1:])]

    def forward(self, vector: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return R h of all layers but the first, whose R h is 0, and R of the mean actions."""
        changes: list[Tensor] = []
        for layer, (weights, bias) in enumerate(layers_of(self.sizes, vector)):
            change = torch.baddbmm(bias, self.inputs[layer], weights)
            if layer:
                changes[-1].mul_(self.slopes[layer])
                change.baddbmm_(changes[-1], self.layers[layer][0])
            changes.append(change)
        return changes[:-1], changes[-1]

    def backward(self, derivative: Tensor) -> list[Tensor]:
        """Return the derivatives by the outputs of all layers, the last layer first, from that by the mean actions."""
        derivatives = [derivative]
        for layer in range(len(self.layers) - 1, 0, -1):
            derivatives.append((derivatives[-1] @ self.layers[layer][0].mT).mul_(self.slopes[layer]))
        return derivatives

    def gradient(self, derivatives: Sequence[Tensor], by_log_std: Tensor) -> Tensor:
        """Return a gradient [N, D] from the derivatives by the outputs of all layers, the last layer first."""
        parts = [by_log_std]
        for inputs, derivative in zip(reversed(self.inputs), derivatives, strict=True):
            parts += [derivative.sum(1), (inputs.mT @ derivative).flatten(1)]
        return torch.cat(parts[::-1], 1)

    def fisher_product(self, vector: Tensor, weight: Tensor) -> Tensor:
        """Return the Hessian of sum weight KL(old || theta) at the old theta times a vector.

        It is J^T F J: J is the derivative of means and log deviations, F is diagonal: std^-2 for means, 2 for log
        deviations.
        """
        weight = weight[..., None]
        derivatives = self.backward(weight * torch.exp(-2 * self.log_std) * self.forward(vector)[1])
        return self.gradient(derivatives, 2 * weight.sum(1) * vector[:, -self.sizes[-1] :])

    def log_likelihood(self, actions: Tensor) -> Tensor:
        """Return log pi(a|s) [N, M] of actions [N, M, A]."""
        z = (actions - self.mean) * torch.exp(-self.log_std)
        return -0.5 * z.square().sum(2) - self.log_std.sum(2) - 0.5 * actions.shape[2] * math.log(2 * math.pi)

    def divergence(self, old: "Networks") -> Tensor:
        """Return KL(old || these) [N, M]."""
        shift = (old.mean - self.mean).square() + torch.exp(2 * old.log_std)
        return (self.log_std - old.log_std + 0.5 * shift * torch.exp(-2 * self.log_std) - 0.5).sum(2)


class PolicyObjective:
    """J = sum weight A log pi(a|s) at theta [N, D]: its gradient, and its Hessian times vectors."""

    def __init__(self, sizes: Sequence[int], theta: Tensor, steps: Steps):
        self.networks = networks = Networks(sizes, theta, steps.observations)
        self._scale = (steps.advantages * steps.weight)[..., None]
        self._factor = self._scale * torch.exp(-2 * networks.log_std)
        self._error = steps.actions - networks.mean
        self._derivatives = networks.backward(self._factor * self._error)

    @cached_property
    def _bends(self) -> list[Tensor]:
        """The terms -2 h (d W^T) of all layers but the first, last layer first."""
        pairs = zip(reversed(self.networks.layers[1:]), self.networks.inputs[:0:-1], self._derivatives, strict=False)
        return [(derivative @ weights.mT).mul_(inputs).mul_(-2) for (weights, _), inputs, derivative in pairs]

    def gradient(self) -> Tensor:
        """Return the policy gradient [N, D]."""
        by_log_std = (self._derivatives[0] * self._error - self._scale).sum(1)
        return self.networks.gradient(self._derivatives, by_log_std)

    def hessian_product(self, vector: Tensor) -> Tensor:
        """Return the products [N, D] of the Hessian with vectors [N, D]."""
        networks, last = self.networks, len(self._derivatives) - 1
        changes, change = networks.forward(vector)
        along = vector[:, None, -networks.sizes[-1] :]
        parts = [-2 * (self._derivatives[0] * (change + self._error * along)).sum(1)]
        turned = -self._factor * (change + 2 * self._error * along)
        for place, (weights, _) in enumerate(reversed(layers_of(networks.sizes, vector))):
            layer, derivative = last - place, self._derivatives[place]
            gradient = networks.inputs[layer].mT @ turned
            if layer:
                gradient.baddbmm_(changes[layer - 1].mT, derivative)
            parts += [turned.sum(1), gradient.flatten(1)]
            if layer:
                back = (turned @ networks.layers[layer][0].mT).baddbmm_(derivative, weights.mT)
                turned = back.mul_(networks.slopes[layer]).addcmul_(self._bends[place], changes[layer - 1])
        return torch.cat(parts[::-1], 1)


def layers_of(sizes: Sequence[int], theta: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return weights [N, in, out] and biases [N, 1, out] of the layers of flat vectors [N, D]."""
    layers, start = [], 0
    for fan_in, fan_out in pairwise(sizes):
        end = start + fan_in * fan_out
        layers.append((theta[:, start:end].view(-1, fan_in, fan_out), theta[:, None, end : end + fan_out]))
        start = end + fan_out
    return layers


def adaptation_step(sizes: Sequence[int], lr: float, theta: Tensor, before: Steps) -> Tensor:
    """Return theta' [N, D] after the adaptation step."""
    return theta + lr * PolicyObjective(sizes, theta, before).gradient()


class LearningTasks:
    """N tasks at one theta [D], with their steps before and after the adaptation; each result is the sum over them.

    `keep`: whether the layers of all networks stay in memory between the calls; without them the bits are the same.
    """

    def __init__(self, sizes: Sequence[int], lr: float, theta: Tensor, before: Steps, after: Steps, keep: bool = True):
        self._sizes, self._lr, self._before, self._after, self._keep = sizes, lr, before, after, keep
        self._theta = self._of_each(theta)
        self._kept: tuple[PolicyObjective, Tensor, Networks] | None = None

    def gradient(self) -> Floats:
        """Return the gradient of the objective L with respect to theta."""
        inner, gradient, _ = self._parts()
        return _summed(self._through_adaptation(inner, gradient))

    def hessian_product(self, vector: Floats) -> Floats:
        """Return the product of the Hessian of the KL, with respect to theta, with a vector."""
        inner, _, outer = self._parts()
        after = self._through_adaptation(inner, self._of_each(torch.tensor(vector, dtype=self._theta.dtype)))
        return _summed(self._through_adaptation(inner, outer.fisher_product(after, self._after.weight)))

    def at(self, theta: Floats | Singles) -> Floats:
        """Return objective and KL [2] at another theta."""
        old, after = self._parts()[2], self._after
        there = self._of_each(torch.tensor(theta, dtype=self._theta.dtype))
        new = Networks(self._sizes, adaptation_step(self._sizes, self._lr, there, self._before), after.observations)
        ratio = torch.exp(new.log_likelihood(after.actions) - old.log_likelihood(after.actions))
        values = (ratio * after.advantages, new.divergence(old))
        return np.array([(value * after.weight).sum().item() for value in values])

    def _parts(self) -> tuple[PolicyObjective, Tensor, Networks]:
        """Return J at theta, the gradient of L at theta', and the networks at theta'.

        At theta' the ratios in L are 1, so its gradient is that of J for the later steps.
        """
        if self._kept is not None:
            return self._kept
        inner = PolicyObjective(self._sizes, self._theta, self._before)
        outer = PolicyObjective(self._sizes, self._theta + self._lr * inner.gradient(), self._after)
        parts = inner, outer.gradient(), outer.networks
        self._kept = parts if self._keep else None
        return parts

    def _through_adaptation(self, inner: PolicyObjective, vector: Tensor) -> Tensor:
        """Multiply with the Jacobian of the adaptation, I + lr H, which is symmetric."""
        return vector + self._lr * inner.hessian_product(vector)

    def _of_each(self, vector: Tensor) -> Tensor:
        """Return a vector [D] on the device of the steps, once for each task."""
        return vector.to(self._after.observations.device).repeat(len(self._after.observations), 1)


def _summed(tensor: Tensor) -> Floats:
    return tensor.double().sum(0).cpu().numpy()
