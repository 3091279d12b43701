"""Round limits of axes."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ees_mpi.analysis.limits import around, limits_of, nice


def run_with(axes: int) -> Any:
    """A run of a task whose behaviors are positions along so many axes, or are not positions."""
    return SimpleNamespace(config=SimpleNamespace(task=SimpleNamespace(axes=axes)))


@pytest.mark.parametrize(
    ("low", "high", "rounded"),
    [(-5.099, 5.099, (-5.5, 5.5)), (0.0, 100.0, (0.0, 100.0)), (0.123, 0.321, (0.12, 0.33)), (2.0, 2.0, (1.0, 3.0))],
)
def test_limits_are_the_next_round_numbers(low: float, high: float, rounded: tuple[float, float]) -> None:
    assert around(low, high) == pytest.approx(rounded, abs=1e-12)


def test_positions_have_the_start_in_the_middle_and_other_behaviors_have_their_own_range() -> None:
    rows = [np.array([[100.0, 0.1]]), np.array([[120.0, 0.2]])]
    assert limits_of(run_with(2), rows) == [(-120.0, 120.0)] * 2
    assert np.allclose(limits_of(run_with(0), rows), [(100.0, 120.0), (0.1, 0.2)])


def test_huge_and_equal_numbers_have_limits_too() -> None:
    for rows in (np.array([[-1.7e308], [1.7e308]]), np.zeros((2, 1))):
        ((low, high),) = limits_of(run_with(1), [rows])
        assert np.isfinite([low, high]).all() and low < high


def test_steps_are_one_two_or_five_times_a_power_of_ten() -> None:
    assert [nice(v) for v in (0.9, 1.0, 3.0, 70.0)] == [1.0, 1.0, 5.0, 100.0]
