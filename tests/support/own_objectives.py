"""Objectives of a user's own, right ones and wrong ones, for the tests of `objective.name = "custom"`."""

from typing import Any

import torch
from torch import Tensor


def distance_variance(behaviors: Tensor, fitness: Tensor, ratios: Tensor, power: float = 2.0) -> Tensor:
    distance = behaviors.norm(dim=1)
    mean = (ratios * distance).mean()
    return (ratios * (distance - mean).abs() ** power).mean()


def random_weights(behaviors: Tensor, fitness: Tensor, ratios: Tensor) -> Tensor:
    return (ratios * torch.randn(len(ratios), dtype=torch.float64)).mean()


def vandal(behaviors: Tensor, fitness: Tensor, ratios: Tensor) -> Tensor:
    behaviors *= 0
    fitness *= 0
    return (ratios * fitness).mean()


def not_a_scalar(behaviors: Tensor, fitness: Tensor, ratios: Tensor) -> Tensor:
    return ratios * fitness


def of_numpy(behaviors: Tensor, fitness: Tensor, ratios: Tensor) -> Any:
    return fitness.numpy().mean()


def not_a_number(behaviors: Tensor, fitness: Tensor, ratios: Tensor) -> Tensor:
    return (ratios * (fitness - 100).log()).mean()


def no_ratios(behaviors: Tensor, fitness: Tensor, ratios: Tensor) -> Tensor:
    return behaviors.var()


def raises(behaviors: Tensor, fitness: Tensor, ratios: Tensor) -> Tensor:
    return behaviors @ fitness


def breaks_later(behaviors: Tensor, fitness: Tensor, ratios: Tensor) -> Tensor:
    """Right until the best fitness is above 3, as made-up ones hardly are."""
    return (ratios * fitness).mean() * (float("nan") if fitness.max() > 3 else 1.0)
