"""The outer step: trust region policy optimisation (Schulman et al. 2015, arXiv:1502.05477).

    direction   solve (H + damping) s = g by conjugate gradients
    length      s sqrt(2 kl_bound / (s (H + damping) s)), shortened until the objective rises and KL <= kl_bound

g: the gradient of the objective; H: the Hessian of the KL.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ees_mpi.maml.settings import MamlSettings
from ees_mpi.outcomes import Floats, Singles

TINY = 1e-10  # relative squared residual at which a system counts as solved


@dataclass(frozen=True)
class Step:
    """The result of a step."""

    theta: Singles
    objective: float  # its gain
    divergence: float  # the KL
    shortened: int  # how often the step was shortened; -1: there was no step, theta is the old one


def conjugate_gradients(product: Callable[[Floats], Floats], target: Floats, iterations: int) -> Floats:
    """Return x with A x = target for a positive definite A, given as its product with a vector."""
    x = np.zeros_like(target)
    residual = target.copy()
    direction = residual.copy()
    size = first = float(residual @ residual)
    for _ in range(iterations):
        if size <= TINY * first:
            break
        turned = product(direction)
        curvature = float(direction @ turned)
        if curvature <= 0.0:  # possible after rounding, near the solution
            break
        length = size / curvature
        x += length * direction
        residual -= length * turned
        following = float(residual @ residual)
        direction = residual + (following / size) * direction
        size = following
    return x


def step(
    theta: Singles,
    gradient: Floats,
    hessian_product: Callable[[Floats], Floats],
    at: Callable[[Singles], tuple[float, float]],
    settings: MamlSettings,
) -> Step:
    """Take one step from theta; `at`: returns objective and KL at another theta."""

    def damped(vector: Floats) -> Floats:
        return hessian_product(vector) + settings.cg_damping * vector

    before, _ = at(theta)
    stay = Step(theta, 0.0, 0.0, -1)
    direction = conjugate_gradients(damped, gradient, settings.cg_iterations)
    curvature = float(direction @ damped(direction))
    if not curvature > 0.0:
        return stay
    whole = direction * np.sqrt(2 * settings.kl_bound / curvature)
    for shortened in range(settings.line_search_steps):
        candidate = (theta + settings.line_search_ratio**shortened * whole).astype(theta.dtype)
        objective, divergence = at(candidate)
        if objective > before and divergence <= settings.kl_bound:
            return Step(candidate, objective - before, divergence, shortened)
    return stay
