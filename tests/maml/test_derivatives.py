"""MAML's derivatives against automatic differentiation and known systems, in double precision."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Normal

from ees_mpi.maml import outer
from ees_mpi.maml.learning import LearningTasks
from ees_mpi.maml.rollouts import Steps

SIZES = (3, 4, 4, 2)
COUNT = 3 * 4 + 4 + 4 * 4 + 4 + 4 * 2 + 2 + 2
LR = 0.1


def steps(*seeds: int) -> Steps:
    """Return random steps of one task for each seed; the last five are padded."""
    size, tensors = 20, []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        shapes = ((size, 3), (size, 2), (size,))
        tensors.append([torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes])
    weight = torch.full((len(seeds), size), 1 / 15, dtype=torch.float64)
    weight[:, 15:] = 0.0
    return Steps(*(torch.stack(each) for each in zip(*tensors, strict=True)), weight)


def start() -> Tensor:
    return 0.5 * torch.randn(COUNT, generator=torch.Generator().manual_seed(9), dtype=torch.float64)


@pytest.fixture(params=[False, True])
def task(request: pytest.FixtureRequest) -> LearningTasks:
    return LearningTasks(SIZES, LR, start(), steps(1), steps(2), keep=request.param)


def policy(theta: Tensor, observations: Tensor) -> Normal:
    """The policy, written a second time, for automatic differentiation."""
    output, place = observations, 0
    for layer, (fan_in, fan_out) in enumerate(pairwise(SIZES)):
        weights, place = theta[place : place + fan_in * fan_out].view(fan_in, fan_out), place + fan_in * fan_out
        output, place = output @ weights + theta[place : place + fan_out], place + fan_out
        output = torch.tanh(output) if layer < len(SIZES) - 2 else output
    return Normal(output, theta[-SIZES[-1] :].exp())


def one(batch: Steps) -> Steps:
    return Steps(*(tensor[0] for tensor in batch))


def objective(theta: Tensor, batch: Steps) -> Tensor:
    likelihood = policy(theta, batch.observations).log_prob(batch.actions).sum(1)
    return (likelihood * batch.advantages * batch.weight).sum()


def after_step(at: Tensor) -> Tensor:
    """Take the adaptation step."""
    (gradient,) = torch.autograd.grad(objective(at, one(steps(1))), at, create_graph=True)
    return at + LR * gradient


def whole(theta: Tensor, what: str) -> Tensor:
    """The task's objective or KL as one differentiable function of theta, including the adaptation."""
    after = one(steps(2))
    old = policy(after_step(start().requires_grad_()).detach(), after.observations)
    new = policy(after_step(theta), after.observations)
    if what == "kl":
        return (torch.distributions.kl_divergence(old, new).sum(1) * after.weight).sum()
    ratio = torch.exp((new.log_prob(after.actions) - old.log_prob(after.actions)).sum(1))
    return (ratio * after.advantages * after.weight).sum()


def test_the_meta_gradient_is_that_of_automatic_differentiation(task: LearningTasks) -> None:
    theta = start().requires_grad_()
    (gradient,) = torch.autograd.grad(whole(theta, "objective"), theta)
    np.testing.assert_allclose(task.gradient(), gradient, atol=1e-12)


def test_hessian_products_equal_the_explicit_hessian(task: LearningTasks) -> None:
    hessian = torch.autograd.functional.hessian(lambda theta: whole(theta, "kl"), start())
    vector = np.random.default_rng(0).normal(size=COUNT)
    np.testing.assert_allclose(task.hessian_product(vector), hessian.numpy() @ vector, atol=1e-9)
    assert task.hessian_product(vector).tobytes() == task.hessian_product(vector).tobytes()


def test_objective_and_kl_are_those_of_the_whole_function_also_where_nothing_has_moved(task: LearningTasks) -> None:
    for theta, moved in ((start(), False), (start() + 0.05, True)):
        expected = [whole(theta.clone().requires_grad_(), what).item() for what in ("objective", "kl")]
        np.testing.assert_allclose(task.at(theta.numpy()), expected, rtol=1e-12, atol=1e-12)
        assert (expected[1] > 1e-6) == moved


def test_conjugate_gradients_solve_a_known_system() -> None:
    generator = np.random.default_rng(3)
    root = generator.normal(size=(8, 8))
    matrix = root @ root.T + np.eye(8)
    solution = generator.normal(size=8)
    found = outer.conjugate_gradients(lambda v: matrix @ v, matrix @ solution, 20)
    np.testing.assert_allclose(found, solution, rtol=1e-4)
    few = outer.conjugate_gradients(lambda v: matrix @ v, matrix @ solution, 2)
    assert np.linalg.norm(few - solution) > 1e-3


def quadratic(kl_bound: float, steepness: float = 1.0) -> outer.Step:
    """Climb -(theta - 3)^2, with a KL of steepness theta^2 / 2 from 0."""
    return outer.trpo_step(
        np.zeros(2),
        np.array([6.0, 6.0]),
        lambda v: v,
        lambda at: (-float(np.square(at - 3).sum()), steepness * float(np.square(at).sum()) / 2),
        kl_bound,
    )


def test_the_step_goes_as_far_as_the_kl_bound_allows() -> None:
    step = quadratic(0.01)
    np.testing.assert_allclose(step.theta, 0.1, rtol=0.21)
    assert step.divergence <= 0.01 and step.objective > 0.0 and step.shortened in (0, 1)  # rounding may take one


def test_the_line_search_shortens_a_step_whose_kl_is_too_large() -> None:
    step = quadratic(0.01, steepness=4.0)
    assert step.shortened >= 3 and step.divergence <= 0.01


def test_no_step_is_taken_if_every_length_is_bad() -> None:
    step = outer.trpo_step(np.ones(2), np.ones(2), lambda v: v, lambda at: (0.0, 0.0), 0.01)
    assert step.shortened == -1 and (step.theta == 1.0).all()
