"""The policy-gradient variant: the same objective, with the score of the policy instead of the population's.

Gajewski et al. 2019, supplement S5. With theta_i = mu + eps_i, eps_i ~ N(0, std^2), with actions
a_t ~ N(policy(theta_i, s_t), action_std^2), and with the weights w_i = dJ / dr_i of any objective, both of these
estimate grad_mu J:

    population    sum_i w_i grad_mu log N(theta_i; mu, std^2)
    policy        sum_i w_i sum_{t = 1..tau_i} grad_mu log pi(a_t | s_t, mu + eps_i)

tau_i is the step at which the behaviour is measured. The inner sum is over all steps up to tau_i, because every action
changes the behaviour. The score of the last step alone (the paper's indicator, read literally) gives a biased estimate.

`Stochastic` accepts both log-densities [N] below, so any graph can be differentiated with either estimator.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ees_mpi.errors import GraphError

Policy = Callable[[Tensor, Tensor], Tensor]  # parameters [D], observations [T, O] -> means of the actions [T, A]


@dataclass(frozen=True)
class Trajectories:
    """The data of N rollouts, padded to T steps."""

    perturbations: Tensor  # [N, D]: eps_i
    observations: Tensor  # [N, T, O]: s_t, as the policy got them
    actions: Tensor  # [N, T, A]: a_t, as they were sampled
    steps: Tensor  # [N]: tau_i, from 1 to T; later steps are ignored

    def __post_init__(self) -> None:
        count, length = self.actions.shape[:2] if self.actions.dim() == 3 else (-1, -1)
        shapes = (self.perturbations.dim(), tuple(self.observations.shape[:2]), tuple(self.steps.shape))
        if count < 0 or shapes != (2, (count, length), (count,)) or len(self.perturbations) != count:
            got = [list(tensor.shape) for tensor in (self.perturbations, self.observations, self.actions, self.steps)]
            raise GraphError(
                "trajectories: expected perturbations [N, D], observations [N, T, O], actions [N, T, A] and steps [N], "
                f"got {got[0]}, {got[1]}, {got[2]} and {got[3]}"
            )
        if not bool(((self.steps >= 1) & (self.steps <= length)).all()):
            raise GraphError(f"trajectories: expected steps of 1 to {length}, got {self.steps.tolist()[:10]}")


def population_log_density(mean: Tensor, perturbations: Tensor, std: float) -> Tensor:
    """Return log N(theta_i; mean, std^2) [N], with theta_i fixed at mean + perturbation."""
    individuals = (mean + perturbations).detach()
    return normal_log_density(individuals, mean, std).sum(1)


def policy_log_density(mean: Tensor, given: Trajectories, policy: Policy, action_std: float) -> Tensor:
    """Return the log-density [N] of the actions of each rollout up to step tau_i, as a function of the mean."""
    wanted = torch.vmap(policy)(mean + given.perturbations, given.observations)
    by_step = normal_log_density(given.actions, wanted, action_std).sum(2)
    counts = torch.arange(by_step.shape[1]) < given.steps[:, None]
    return torch.where(counts, by_step, 0.0).sum(1)


def weighted_score(weights: Tensor, log_density: Tensor, mean: Tensor) -> Tensor:
    """Return sum_i w_i grad_mean log-density_i [D]; for a large population, add up the results of its parts."""
    return torch.autograd.grad(torch.dot(weights, log_density), mean)[0]


def normal_log_density(x: Tensor, mean: Tensor, std: float) -> Tensor:
    """Return the log-density of independent Gaussians, elementwise."""
    return -0.5 * ((x - mean) / std) ** 2 - math.log(std * math.sqrt(2 * math.pi))
