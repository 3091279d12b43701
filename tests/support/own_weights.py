"""Objectives of a user's own in numpy, right ones and wrong ones, for the tests of `objective.name = "weights"`."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def outermost(behaviors: Array, fitness: Array, power: float = 4.0) -> Array:
    return np.asarray(np.linalg.norm(behaviors, axis=1) ** power)


def vandal(behaviors: Array, fitness: Array) -> Array:
    behaviors *= 0
    fitness *= 0
    return np.arange(len(fitness), dtype=float)


def one_number(behaviors: Array, fitness: Array) -> float:
    return float(behaviors.var())


def not_numbers(behaviors: Array, fitness: Array) -> list[str]:
    return ["large"] * len(fitness)


def not_finite(behaviors: Array, fitness: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.log(fitness))


def with_ratios(behaviors: Array, fitness: Array, ratios: Array) -> Array:
    return ratios


def random(behaviors: Array, fitness: Array) -> Array:
    return np.random.default_rng().random(len(fitness))
