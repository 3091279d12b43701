"""The outer step: trust region policy optimisation (Schulman et al. 2015, arXiv:1502.05477), on plain vectors.

    direction   solve (H + damping) s = g by conjugate gradients
    length      s sqrt(2 kl_bound / (s (H + damping) s)), then shorter and shorter

until the objective rises within the bound. g: the objective's gradient; H: the KL's Hessian.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ees_mpi.outcomes import Floats, Singles

TINY = 1e-10  # of the squared residual, relative: solved


@dataclass(frozen=True)
class Step:
    """What a step came to."""

    theta: Singles
    objective: float  # gained
    divergence: float
    shortened: int  # how often; -1: no length was good, and theta stays as it was


def conjugate_gradients(product: Callable[[Floats], Floats], target: Floats, iterations: int) -> Floats:
    """Solve A x = target for a positive definite A, given as its product with a vector."""
    x = np.zeros_like(target)
    residual = target.copy()
    direction = residual.copy()
    size = first = float(residual @ residual)
    for _ in range(iterations):
        if size <= TINY * first:
            break
        turned = product(direction)
        curvature = float(direction @ turned)
        if curvature <= 0.0:  # rounding, at the end of what can be solved
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
    *,
    kl_bound: float,
    iterations: int,
    damping: float,
    line_search_steps: int,
    line_search_ratio: float,
) -> Step:
    """Take one step from theta; `at`: the objective and the KL at another theta."""

    def damped(vector: Floats) -> Floats:
        return hessian_product(vector) + damping * vector

    before, _ = at(theta)
    stay = Step(theta, 0.0, 0.0, -1)
    direction = conjugate_gradients(damped, gradient, iterations)
    curvature = float(direction @ damped(direction))
    if not curvature > 0.0:
        return stay
    whole = direction * np.sqrt(2 * kl_bound / curvature)
    for shortened in range(line_search_steps):
        candidate = (theta + line_search_ratio**shortened * whole).astype(theta.dtype)
        objective, divergence = at(candidate)
        if objective > before and divergence <= kl_bound:
            return Step(candidate, objective - before, divergence, shortened)
    return stay
