"""The contribution of one task to the outer step: derivatives of its objective and its KL with respect to theta.

With theta' = theta + lr grad J(theta), the Jacobian of the adaptation is I + lr H. H is the Hessian of J.

    gradient             (I + lr H) grad L(theta')
    KL's Hessian times v (I + lr H) F (I + lr H) v        F: the Hessian of the KL at theta'

The second equation is exact at the old theta, because the KL and its gradient are zero there. It is used only there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ees_mpi.maml.baseline import advantages
from ees_mpi.maml.network import Tensor, divergence, log_likelihood, log_std, mean_action, torch
from ees_mpi.maml.rollouts import Batch, Gaussian
from ees_mpi.maml.settings import MamlSettings
from ees_mpi.outcomes import Floats, Singles


@dataclass(frozen=True)
class Steps:
    """A batch as torch tensors: M = R T steps; padded steps have weight 0."""

    observations: Tensor  # [M, O]
    actions: Tensor  # [M, A]
    advantages: Tensor  # [M]
    weight: Tensor  # [M]: 1 / (number of steps taken), or 0

    @classmethod
    def of(cls, batch: Batch, discount: float, dtype: torch.dtype = torch.float32) -> "Steps":
        """Return a batch as tensors. They are copies, so that their alignment, which can change bits, is fixed."""
        mask = batch.mask.reshape(-1)
        steps: list[Any] = [array.reshape(len(mask), -1) for array in (batch.observations, batch.actions)]
        steps += [advantages(batch, discount).reshape(-1), mask / mask.sum()]
        return cls(*(torch.tensor(array, dtype=dtype) for array in steps))


@dataclass(frozen=True)
class Learner:
    """Adapts a policy to one task; `sizes`: of the layers of the network."""

    sizes: Sequence[int]
    lr: float

    def objective(self, theta: Tensor, steps: Steps) -> Tensor:
        """Return J, whose gradient at theta is the policy gradient."""
        mean = mean_action(self.sizes, theta, steps.observations)
        likelihood = log_likelihood(mean, log_std(self.sizes, theta), steps.actions)
        return (likelihood * steps.advantages * steps.weight).sum()

    def adapted(self, theta: Tensor, before: Steps) -> Tensor:
        """Return theta', after the adaptation step."""
        at = theta.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(self.objective(at, before), at)
        return (at + self.lr * gradient).detach()


def theta_of(mean: Singles, log_std: Singles) -> Tensor:
    """Return the parameters of a policy as one tensor."""
    return torch.tensor(np.concatenate([mean, log_std]))


def adapt(policy: Gaussian, before: Batch, settings: MamlSettings) -> Gaussian:
    """Return a policy after the adaptation step on its rollouts."""
    theta = theta_of(policy.mean, policy.log_std)
    learner = Learner(policy.network.sizes, settings.adaptation_lr)
    result = learner.adapted(theta, Steps.of(before, settings.discount)).numpy()
    split = policy.network.count
    return replace(policy, mean=result[:split].copy(), log_std=result[split:].copy())


class Curvature:
    """Multiplies the Hessian of a function at a point with vectors; `keep`: keep the graph for faster products."""

    def __init__(self, function: Callable[[Tensor], Tensor], at: Tensor, keep: bool):
        self._function, self._at, self._keep = function, at.detach().requires_grad_(), keep
        self._gradient: Tensor | None = None

    def times(self, vector: Tensor) -> Tensor:
        """Return the product of the Hessian with a vector."""
        gradient = self._gradient
        if gradient is None:
            (gradient,) = torch.autograd.grad(self._function(self._at), self._at, create_graph=True)
            self._gradient = gradient if self._keep else None
        (product,) = torch.autograd.grad(gradient @ vector, self._at, retain_graph=self._keep)
        return product


class LearningTask:
    """One task of the outer iteration, at one theta, with its rollouts before and after the adaptation."""

    def __init__(self, learner: Learner, theta: Tensor, before: Steps, after: Steps, keep: bool = False):
        self._learner, self._theta, self._before, self._after = learner, theta, before, after
        self._adapted = learner.adapted(theta, before)
        with torch.no_grad():
            self._old_mean, self._old_log_std = self._policy(self._adapted)
            self._old_likelihood = log_likelihood(self._old_mean, self._old_log_std, after.actions)
        self._inner = Curvature(lambda at: learner.objective(at, before), theta, keep)
        self._outer = Curvature(lambda at: self._divergence(*self._policy(at)), self._adapted, keep)

    def gradient(self) -> Floats:
        """Return the gradient of the objective with respect to theta."""
        at = self._adapted.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(self._surrogate(*self._policy(at)), at)
        return _array(self._through_adaptation(gradient))

    def hessian_product(self, vector: Floats) -> Floats:
        """Return the product of the Hessian of the KL, with respect to theta, with a vector."""
        v = torch.tensor(vector, dtype=self._theta.dtype)
        return _array(self._through_adaptation(self._outer.times(self._through_adaptation(v))))

    def at(self, theta: Floats | Singles) -> Floats:
        """Return objective and KL [2] at another theta."""
        there = torch.tensor(theta, dtype=self._theta.dtype)
        policy = self._policy(self._learner.adapted(there, self._before))
        return np.array([self._surrogate(*policy).item(), self._divergence(*policy).item()])

    def _policy(self, adapted: Tensor) -> tuple[Tensor, Tensor]:
        sizes = self._learner.sizes
        return mean_action(sizes, adapted, self._after.observations), log_std(sizes, adapted)

    def _surrogate(self, mean: Tensor, log_std: Tensor) -> Tensor:
        ratio = torch.exp(log_likelihood(mean, log_std, self._after.actions) - self._old_likelihood)
        return (ratio * self._after.advantages * self._after.weight).sum()

    def _divergence(self, mean: Tensor, log_std: Tensor) -> Tensor:
        return (divergence(self._old_mean, self._old_log_std, mean, log_std) * self._after.weight).sum()

    def _through_adaptation(self, vector: Tensor) -> Tensor:
        """Multiply with the Jacobian of the adaptation, I + lr H, which is symmetric."""
        return vector + self._learner.lr * self._inner.times(vector)


def _array(tensor: Tensor) -> Floats:
    return tensor.detach().numpy().astype(np.float64)
