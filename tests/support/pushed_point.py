"""A comparison of the population's and the policy's gradient estimator, on a problem whose gradient is known.

A point at s is pushed T times, in proportion to its position. The behaviour is its final position:

    a_t ~ N(theta s_t, action_std^2),   s_{t+1} = s_t + a_t,   B = s_T,   theta ~ N(mu, std^2),   s_0 given

With u = 1 + theta and independent normal x_t, B = s_0 u^T + action_std sum_t x_t u^(T-1-t). So

    Var B = s_0^2 Var(u^T) + action_std^2 sum_{k<T} E[u^2k],     d E[u^p] / d mu = p E[u^(p-1)]
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ees_mpi.scg.policy_gradient import Trajectories, policy_log_density, population_log_density, weighted_score


@dataclass(frozen=True)
class Pushed:
    """The problem of the module docstring."""

    mean: float = -0.2
    std: float = 0.3
    action_std: float = 0.3
    start: float = 1.0
    steps: int = 3

    def gradient(self) -> float:
        """Return d Var(B) / d mu."""
        moments = [1.0, 1 + self.mean]
        for power in range(2, 2 * self.steps + 1):
            moments.append(moments[1] * moments[-1] + (power - 1) * self.std**2 * moments[-2])
        t = self.steps
        of_start = 2 * t * moments[2 * t - 1] - 2 * moments[t] * t * moments[t - 1]
        of_actions = sum(2 * k * moments[2 * k - 1] for k in range(1, t))
        return self.start**2 * of_start + self.action_std**2 * of_actions

    def roll_out(self, count: int, generator: torch.Generator) -> tuple[Trajectories, Tensor]:
        """Return rollouts and their behaviours [N]."""
        perturbations = self.std * torch.randn(count, 1, generator=generator, dtype=torch.float64)
        noise = self.action_std * torch.randn(count, self.steps, generator=generator, dtype=torch.float64)
        states, actions = [torch.full((count,), self.start, dtype=torch.float64)], []
        for step in range(self.steps):
            actions.append((self.mean + perturbations[:, 0]) * states[-1] + noise[:, step])
            states.append(states[-1] + actions[-1])
        seen, done = torch.stack(states[:-1], 1)[..., None], torch.stack(actions, 1)[..., None]
        return Trajectories(perturbations, seen, done, torch.full((count,), self.steps)), states[-1]


def proportional(parameters: Tensor, observations: Tensor) -> Tensor:
    """Return the mean action of the policy: theta times the state."""
    return parameters * observations


class Estimator(NamedTuple):
    """The mean of an estimator of the gradient of Var(B) over batches, the standard error of the mean, the variance."""

    name: str
    mean: float
    error: float
    variance: float


def compare(problem: Pushed, batches: int, size: int, seed: int = 0) -> list[Estimator]:
    """Estimate the gradient from many batches of rollouts with both estimators, and with the last step's score only."""
    generator = torch.Generator().manual_seed(seed)
    found: dict[str, list[Tensor]] = {"population": [], "policy": [], "last step only": []}
    for _ in range(batches):
        given, behavior = problem.roll_out(size, generator)
        mean = torch.full((1,), problem.mean, dtype=torch.float64, requires_grad=True)
        squares = (behavior - behavior.mean()) ** 2
        weights = (squares - squares.mean()) / size
        last = Trajectories(
            given.perturbations, given.observations[:, -1:], given.actions[:, -1:], torch.ones(size, dtype=torch.long)
        )
        densities = {
            "population": population_log_density(mean, given.perturbations, problem.std),
            "policy": policy_log_density(mean, given, proportional, problem.action_std),
            "last step only": policy_log_density(mean, last, proportional, problem.action_std),
        }
        for name, density in densities.items():
            found[name].append(weighted_score(weights, density, mean))
    estimates = {name: torch.cat(values) for name, values in found.items()}
    return [
        Estimator(name, float(each.mean()), (float(each.var()) / batches) ** 0.5, float(each.var()))
        for name, each in estimates.items()
    ]
