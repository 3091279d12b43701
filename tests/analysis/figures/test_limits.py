"""Round limits of axes."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ees_mpi.analysis.figures.positions import limits


def run_with(axes: int) -> Any:
    """A run of a task whose behaviors are positions along so many axes, or are not positions."""
    return SimpleNamespace(config=SimpleNamespace(task=SimpleNamespace(axes=axes)))


def of(axes: int, low: list[float], high: list[float]) -> list[tuple[float, float]]:
    return limits(run_with(axes), np.array(low), np.array(high))


@pytest.mark.parametrize(
    ("low", "high", "rounded"),
    [(-5.099, 5.099, (-5.5, 5.5)), (0.0, 100.0, (0.0, 100.0)), (0.123, 0.321, (0.12, 0.33)), (2.0, 2.0, (1.0, 3.0))],
)
def test_limits_are_the_next_round_numbers(low: float, high: float, rounded: tuple[float, float]) -> None:
    assert of(0, [low], [high])[0] == pytest.approx(rounded, abs=1e-12)


def test_positions_have_the_start_in_the_middle_and_other_behaviors_have_their_own_range() -> None:
    assert of(2, [100.0, 0.1], [120.0, 0.2]) == [(-120.0, 120.0)] * 2
    assert np.allclose(of(0, [100.0, 0.1], [120.0, 0.2]), [(100.0, 120.0), (0.1, 0.2)])


def test_huge_and_equal_numbers_have_limits_too() -> None:
    for low, high in ((-1.7e308, 1.7e308), (0.0, 0.0)):
        ((a, b),) = of(1, [low], [high])
        assert np.isfinite([a, b]).all() and a < b
