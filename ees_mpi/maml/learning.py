"""The contribution of one task to the outer step: derivatives of its objective and its KL with respect to theta.

With theta' = theta + lr grad J(theta), the Jacobian of the adaptation is I + lr H. H is the Hessian of J.

    gradient             (I + lr H) grad L(theta')
    KL's Hessian times v (I + lr H) F (I + lr H) v        F: the Hessian of the KL at theta'

The second equation is exact at the old theta, because the KL and its gradient are zero there. It is used only there.

`products.LearningTasks` computes several tasks side by side: then theta and all tensors have one more axis in front. A
CPU rank computes one task after the other, so that the bits do not depend on the number of ranks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ees_mpi.maml.network import Tensor, divergence, log_likelihood, log_std, mean_action, torch
from ees_mpi.maml.rollouts import Batch, Gaussian
from ees_mpi.maml.settings import MamlSettings
from ees_mpi.outcomes import Floats, Singles

Product = Callable[[Tensor], Tensor]  # of a matrix with a vector
RIDGE = 1e-5
TIME_SCALE = 100.0  # steps; keeps the powers of time near 1


class Steps(NamedTuple):
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
    """Adapts a policy to one task, or to `several` tasks side by side; `sizes`: of the layers of the network."""

    sizes: Sequence[int]
    lr: float
    several: bool = False

    def over_tasks(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of one task as a function of all tasks."""
        return torch.vmap(function) if self.several else function

    def policy(self, theta: Tensor, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean actions and the log standard deviations."""
        mean = self.over_tasks(lambda at, seen: mean_action(self.sizes, at, seen))(theta, observations)
        return mean, log_std(self.sizes, theta)

    def objective(self, theta: Tensor, steps: Steps) -> Tensor:
        """Return J, whose gradient at theta is the policy gradient."""
        likelihood: Tensor = self.over_tasks(log_likelihood)(*self.policy(theta, steps.observations), steps.actions)
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
        self._learner, self._before, self._after = learner, before, after
        self._theta = self._of_each(theta)
        self._adapted = learner.adapted(self._theta, before)
        with torch.no_grad():
            self._old_mean, self._old_log_std = self._policy(self._adapted)
            self._old_likelihood = self._likelihood(self._old_mean, self._old_log_std)
        self._inner, self._outer = self._curvatures(keep)

    def _curvatures(self, keep: bool) -> tuple[Product, Product]:
        """Return the products with the Hessians of the objective, at theta, and of the KL, after the adaptation."""
        inner = Curvature(lambda at: self._learner.objective(at, self._before), self._theta, keep)
        return inner.times, Curvature(lambda at: self._divergence(*self._policy(at)), self._adapted, keep).times

    def gradient(self) -> Floats:
        """Return the gradient of the objective with respect to theta."""
        at = self._adapted.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(self._surrogate(*self._policy(at)), at)
        return self._summed(self._through_adaptation(gradient))

    def hessian_product(self, vector: Floats) -> Floats:
        """Return the product of the Hessian of the KL, with respect to theta, with a vector."""
        v = self._of_each(torch.tensor(vector, dtype=self._theta.dtype))
        return self._summed(self._through_adaptation(self._outer(self._through_adaptation(v))))

    def at(self, theta: Floats | Singles) -> Floats:
        """Return objective and KL [2] at another theta."""
        there = self._of_each(torch.tensor(theta, dtype=self._theta.dtype))
        policy = self._policy(self._learner.adapted(there, self._before))
        return np.array([self._surrogate(*policy).item(), self._divergence(*policy).item()])

    def _of_each(self, vector: Tensor) -> Tensor:
        """Return a vector [D] on the device of the steps, once for each of several tasks."""
        vector, observations = vector.to(self._after.observations.device), self._after.observations
        return vector.repeat(len(observations), 1) if self._learner.several else vector

    def _summed(self, tensor: Tensor) -> Floats:
        """Return the sum over several tasks on the host."""
        if self._learner.several:
            tensor = tensor.double().sum(0)
        return tensor.detach().cpu().numpy().astype(np.float64)

    def _policy(self, adapted: Tensor) -> tuple[Tensor, Tensor]:
        return self._learner.policy(adapted, self._after.observations)

    def _likelihood(self, mean: Tensor, log_std: Tensor) -> Tensor:
        likelihood: Tensor = self._learner.over_tasks(log_likelihood)(mean, log_std, self._after.actions)
        return likelihood

    def _surrogate(self, mean: Tensor, log_std: Tensor) -> Tensor:
        ratio = torch.exp(self._likelihood(mean, log_std) - self._old_likelihood)
        return (ratio * self._after.advantages * self._after.weight).sum()

    def _divergence(self, mean: Tensor, log_std: Tensor) -> Tensor:
        divergences: Tensor = self._learner.over_tasks(divergence)(self._old_mean, self._old_log_std, mean, log_std)
        return (divergences * self._after.weight).sum()

    def _through_adaptation(self, vector: Tensor) -> Tensor:
        """Multiply with the Jacobian of the adaptation, I + lr H, which is symmetric."""
        return vector + self._learner.lr * self._inner(vector)


def advantages(batch: Batch, discount: float) -> Floats:
    """Return the advantages [R, T]: discounted returns minus a linear feature baseline (Duan et al. 2016).

    They have mean 0 and standard deviation 1 over the steps taken; padded steps have 0.
    """
    mask = batch.mask
    values = (returns(batch.rewards, discount) - predicted(batch, discount))[mask]
    result = np.zeros(mask.shape)
    result[mask] = (values - values.mean()) / (values.std() + 1e-8)
    return result


def returns(rewards: Floats, discount: float) -> Floats:
    """Return the discounted sum of the present and all later rewards, at every step [R, T]."""
    result = np.zeros_like(rewards)
    running = np.zeros(len(rewards))
    for step in reversed(range(rewards.shape[1])):
        running = rewards[:, step] + discount * running
        result[:, step] = running
    return result


def predicted(batch: Batch, discount: float) -> Floats:
    """Return the prediction [R, T] of a linear fit of the returns to the features of the steps."""
    mask = batch.mask
    seen = batch.observations[mask].astype(np.float64)
    time = np.broadcast_to(np.arange(mask.shape[1]) / TIME_SCALE, mask.shape)[mask][:, None]
    features = np.hstack([seen, np.square(seen), time, time**2, time**3, np.ones_like(time)])
    gram = features.T @ features + RIDGE * np.eye(features.shape[1])
    weights = np.linalg.solve(gram, features.T @ returns(batch.rewards, discount)[mask])
    result = np.zeros(mask.shape)
    result[mask] = features @ weights
    return result
