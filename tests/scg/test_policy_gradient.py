"""The population's and the policy's score: the same gradient in the mean, by the same objective."""

import math

import pytest
import torch
from support.pushed_point import Pushed, compare, proportional
from torch import Tensor

from ees_mpi import scg
from ees_mpi.scg.policy_gradient import (
    Trajectories,
    policy_log_density,
    population_log_density,
    weighted_score,
)

torch.set_num_threads(1)


def parameter(value: float) -> Tensor:
    return torch.tensor([value], dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("problem", [Pushed(), Pushed(std=0.1, steps=5), Pushed(action_std=0.8, steps=2)])
def test_both_estimators_meet_the_known_gradient_and_the_last_step_alone_does_not(problem: Pushed) -> None:
    truth = problem.gradient()
    population, policy, last = compare(problem, batches=100, size=1000)
    for estimator in (population, policy):
        assert abs(estimator.mean - truth) < 3.5 * estimator.error
        assert estimator.error < 0.1 * abs(truth)
    assert abs(last.mean - truth) > 5 * last.error


def test_which_variance_is_lower_depends_on_which_noise_is_larger() -> None:
    population, policy, _ = compare(Pushed(std=0.03, action_std=0.5), batches=40, size=300)
    assert policy.variance < 0.2 * population.variance
    population, policy, _ = compare(Pushed(std=0.3, action_std=0.05), batches=40, size=300)
    assert population.variance < 0.2 * policy.variance


def test_the_known_gradient_is_the_derivative_of_the_variance() -> None:
    def variance(mu: float) -> float:
        """s0^2 Var(u^2) + action_std^2 (1 + E[u^2]), u = 1 + theta, for two steps."""
        m, s = 1 + mu, 0.3
        return 4 * m**2 * s**2 + 2 * s**4 + 0.3**2 * (1 + m**2 + s**2)

    numerical = (variance(-0.2 + 1e-6) - variance(-0.2 - 1e-6)) / 2e-6
    assert Pushed(mean=-0.2, steps=2).gradient() == pytest.approx(numerical, rel=1e-8)


def test_log_densities_and_scores_are_those_written_out_by_hand() -> None:
    problem, mean = Pushed(), parameter(-0.2)
    given, _ = problem.roll_out(7, torch.Generator().manual_seed(0))
    weights = torch.arange(7.0, dtype=torch.float64)
    states, actions = given.observations[..., 0], given.actions[..., 0]
    off = actions - (mean.detach() + given.perturbations) * states
    density = policy_log_density(mean, given, proportional, 0.3)
    torch.testing.assert_close(density, (-0.5 * (off / 0.3) ** 2 - math.log(0.3 * math.sqrt(2 * math.pi))).sum(1))
    expected = (weights * (off * states / 0.3**2).sum(1)).sum()[None]
    torch.testing.assert_close(weighted_score(weights, density, mean), expected)
    density = population_log_density(mean, given.perturbations, 0.3)
    expected = (weights[:, None] * given.perturbations / 0.3**2).sum(0)
    torch.testing.assert_close(weighted_score(weights, density, mean), expected)


def test_steps_after_the_one_that_counts_do_not_matter() -> None:
    given, _ = Pushed(steps=4).roll_out(5, torch.Generator().manual_seed(1))
    steps = torch.tensor([1, 2, 3, 4, 2])
    mean = parameter(0.0)
    late = torch.arange(4) >= steps[:, None]
    spoilt = torch.where(late[..., None], 1e3, given.actions)
    densities = [
        policy_log_density(mean, Trajectories(given.perturbations, given.observations, a, steps), proportional, 0.3)
        for a in (given.actions, spoilt)
    ]
    torch.testing.assert_close(densities[0], densities[1])


def test_a_graph_takes_either_log_density_and_gives_the_weighted_score() -> None:
    problem, mean = Pushed(), parameter(-0.2)
    given, behavior = problem.roll_out(50, torch.Generator().manual_seed(2))
    weights = (behavior - behavior.mean()) ** 2 / 50
    for density in (
        population_log_density(mean, given.perturbations, problem.std),
        policy_log_density(mean, given, proportional, problem.action_std),
    ):
        z = scg.Stochastic("z", behavior, density)
        other = z.twin("z'")
        variance = scg.expect((z - scg.expect(other, over=other)) ** 2, over=z)
        (by_graph,) = torch.autograd.grad(scg.estimate(variance), mean, retain_graph=True)
        torch.testing.assert_close(by_graph, weighted_score(weights, density, mean), rtol=1e-10, atol=1e-12)


def test_a_network_policy_gets_the_gradient_of_each_rollouts_own_parameters() -> None:
    generator = torch.Generator().manual_seed(3)

    def policy(parameters: Tensor, observations: Tensor) -> Tensor:
        return torch.tanh(observations @ parameters[:6].reshape(3, 2) + parameters[6:])

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    given = Trajectories(random(4, 8), random(4, 5, 3), random(4, 5, 2), torch.tensor([5, 3, 1, 4]))
    mean = random(8).requires_grad_()
    weights = random(4)
    by_hand = torch.zeros(8, dtype=torch.float64)
    for i in range(4):
        own = (mean.detach() + given.perturbations[i]).requires_grad_()
        steps = int(given.steps[i])
        off = given.actions[i, :steps] - policy(own, given.observations[i, :steps])
        by_hand += torch.autograd.grad(weights[i] * (-0.5 * (off / 0.4) ** 2).sum(), own)[0]
    found = weighted_score(weights, policy_log_density(mean, given, policy, 0.4), mean)
    torch.testing.assert_close(found, by_hand)


@pytest.mark.parametrize(
    ("shapes", "steps", "message"),
    [
        (((4, 1), (4, 3, 1), (4, 2, 1)), [1] * 4, r"got \[4, 1\], \[4, 3, 1\], \[4, 2, 1\] and \[4\]"),
        (((4, 1), (4, 3, 1), (4, 3)), [1] * 4, r"expected perturbations \[N, D\], observations \[N, T, O\]"),
        (((3, 1), (4, 3, 1), (4, 3, 1)), [1] * 4, r"got \[3, 1\]"),
        (((4, 1), (4, 3, 1), (4, 3, 1)), [1] * 5, r"and \[5\]"),
        (((4, 1), (4, 3, 1), (4, 3, 1)), [1, 0, 2, 3], r"expected steps of 1 to 3, got \[1, 0, 2, 3\]"),
        (((4, 1), (4, 3, 1), (4, 3, 1)), [1, 4, 2, 3], r"expected steps of 1 to 3"),
    ],
)
def test_trajectories_that_do_not_fit_are_refused(
    shapes: tuple[tuple[int, ...], ...], steps: list[int], message: str
) -> None:
    with pytest.raises(scg.GraphError, match=message):
        Trajectories(*(torch.zeros(shape) for shape in shapes), torch.tensor(steps))
