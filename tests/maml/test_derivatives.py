"""MAML's derivatives against finite differences, explicit Hessians and known systems, in double precision."""

import numpy as np
import pytest
import torch
from torch import Tensor

from ees_mpi.maml import trpo
from ees_mpi.maml.learning import Learner, LearningTask, Steps
from ees_mpi.maml.network import divergence, log_likelihood, log_std, mean_action
from ees_mpi.maml.products import LearningTasks
from ees_mpi.maml.settings import MamlSettings

SIZES = (3, 4, 4, 2)
COUNT = 3 * 4 + 4 + 4 * 4 + 4 + 4 * 2 + 2 + 2
LR = 0.1


def steps(seed: int) -> Steps:
    generator = torch.Generator().manual_seed(seed)
    size = 20
    weight = torch.full((size,), 1 / 15, dtype=torch.float64)
    weight[15:] = 0.0  # padded
    return Steps(
        torch.randn(size, 3, generator=generator, dtype=torch.float64),
        torch.randn(size, 2, generator=generator, dtype=torch.float64),
        torch.randn(size, generator=generator, dtype=torch.float64),
        weight,
    )


def start() -> Tensor:
    return 0.5 * torch.randn(COUNT, generator=torch.Generator().manual_seed(9), dtype=torch.float64)


@pytest.fixture(params=[False, True])
def task(request: pytest.FixtureRequest) -> LearningTask:
    return LearningTask(Learner(SIZES, LR), start(), steps(1), steps(2), keep=request.param)


def adapted(at: Tensor) -> Tensor:
    """Take the adaptation step."""
    before = steps(1)
    likelihood = log_likelihood(mean_action(SIZES, at, before.observations), log_std(SIZES, at), before.actions)
    (gradient,) = torch.autograd.grad((likelihood * before.advantages * before.weight).sum(), at, create_graph=True)
    return at + LR * gradient


def whole(theta: Tensor, what: str) -> Tensor:
    """The task's objective or KL as one differentiable function of theta, including the adaptation."""
    after = steps(2)
    old = adapted(start().requires_grad_()).detach()
    new = adapted(theta)
    policies = [(mean_action(SIZES, at, after.observations), log_std(SIZES, at)) for at in (old, new)]
    if what == "kl":
        return (divergence(*policies[0], *policies[1]) * after.weight).sum()
    ratio = torch.exp(log_likelihood(*policies[1], after.actions) - log_likelihood(*policies[0], after.actions))
    return (ratio * after.advantages * after.weight).sum()


def test_the_meta_gradient_equals_finite_differences(task: LearningTask) -> None:
    theta, h = start().numpy(), 1e-5
    differences = []
    for direction in np.eye(COUNT):
        differences.append((task.at(theta + h * direction)[0] - task.at(theta - h * direction)[0]) / (2 * h))
    np.testing.assert_allclose(task.gradient(), differences, atol=1e-5, rtol=1e-5)


def test_the_meta_gradient_counts_the_change_of_the_adaptation(task: LearningTask) -> None:
    frozen = LearningTask(Learner(SIZES, 1e-12), adapted(start().requires_grad_()).detach(), steps(1), steps(2))
    assert np.abs(task.gradient() - frozen.gradient()).max() > 1e-3


def test_hessian_products_equal_the_explicit_hessian(task: LearningTask) -> None:
    hessian = torch.autograd.functional.hessian(lambda theta: whole(theta, "kl"), start())
    vector = np.random.default_rng(0).normal(size=COUNT)
    np.testing.assert_allclose(task.hessian_product(vector), hessian.numpy() @ vector, atol=1e-9)
    np.testing.assert_allclose(task.hessian_product(vector), hessian.numpy() @ vector, atol=1e-9)  # from a kept graph


def test_objective_and_kl_at_another_theta_are_those_of_the_whole_function(task: LearningTask) -> None:
    theta = start() + 0.05
    expected = [whole(theta.clone().requires_grad_(), what).item() for what in ("objective", "kl")]
    np.testing.assert_allclose(task.at(theta.numpy()), expected, rtol=1e-12)
    assert expected[1] > 0.0


def test_at_the_old_theta_nothing_has_moved(task: LearningTask) -> None:
    objective, kl = task.at(start().numpy())
    after = steps(2)
    assert kl == pytest.approx(0.0, abs=1e-12)
    assert objective == pytest.approx((after.advantages * after.weight).sum().item())


def test_several_tasks_in_closed_form_are_the_sums_of_single_tasks() -> None:
    seeds = ((1, 2), (3, 4), (5, 6))
    single = [LearningTask(Learner(SIZES, LR), start(), *(steps(seed) for seed in pair)) for pair in seeds]
    stacked = [
        Steps(*(torch.stack(each) for each in zip(*(steps(pair[k]) for pair in seeds), strict=True))) for k in (0, 1)
    ]
    together = LearningTasks(Learner(SIZES, LR, several=True), start(), *stacked)
    vector = np.random.default_rng(0).normal(size=COUNT)
    for name, arguments in (("gradient", ()), ("hessian_product", (vector,)), ("at", (vector,))):
        expected = sum(getattr(each, name)(*arguments) for each in single)
        np.testing.assert_allclose(getattr(together, name)(*arguments), expected, atol=1e-12)


def test_conjugate_gradients_solve_a_known_system() -> None:
    generator = np.random.default_rng(3)
    root = generator.normal(size=(8, 8))
    matrix = root @ root.T + np.eye(8)
    solution = generator.normal(size=8)
    found = trpo.conjugate_gradients(lambda v: matrix @ v, matrix @ solution, 20)
    np.testing.assert_allclose(found, solution, rtol=1e-4)
    few = trpo.conjugate_gradients(lambda v: matrix @ v, matrix @ solution, 2)
    assert np.linalg.norm(few - solution) > 1e-3


def test_conjugate_gradients_leave_a_zero_target_alone() -> None:
    assert not trpo.conjugate_gradients(lambda v: v, np.zeros(3), 10).any()


def quadratic(kl_bound: float, steepness: float = 1.0) -> trpo.Step:
    """Climb -(theta - 3)^2, with a KL of steepness theta^2 / 2 from 0."""
    return trpo.step(
        np.zeros(2),
        np.array([6.0, 6.0]),
        lambda v: v,
        lambda at: (-float(np.square(at - 3).sum()), steepness * float(np.square(at).sum()) / 2),
        MamlSettings(kl_bound=kl_bound, cg_damping=0.0),
    )


def test_the_step_goes_as_far_as_the_kl_bound_allows() -> None:
    step = quadratic(0.01)
    np.testing.assert_allclose(step.theta, 0.1, rtol=0.21)
    assert step.divergence <= 0.01 and step.objective > 0.0 and step.shortened in (0, 1)  # rounding may take one


def test_the_line_search_shortens_a_step_whose_kl_is_too_large() -> None:
    step = quadratic(0.01, steepness=4.0)
    assert step.shortened >= 3 and step.divergence <= 0.01


def test_no_step_is_taken_if_every_length_is_bad() -> None:
    step = trpo.step(
        np.ones(2),
        np.ones(2),
        lambda v: v,
        lambda at: (0.0, 0.0),
        MamlSettings(kl_bound=0.01, cg_iterations=3, cg_damping=0.0, line_search_steps=4, line_search_ratio=0.5),
    )
    assert step.shortened == -1 and (step.theta == 1.0).all()
