"""The slices of the nodes follow their speeds, if that saves a round of rollouts."""

import numpy as np
import pytest

from ees_mpi.ranks.slices import Slices

RANKS = np.array([8, 8, 4])


@pytest.mark.parametrize("count", [0, 1, 3, 20, 80, 97, 2000])
def test_slices_are_a_partition_by_the_number_of_ranks(count: int) -> None:
    ends = Slices(RANKS).cut(count)
    assert ends[0] == 0 and ends[-1] == count and (np.diff(ends) >= (count >= 3)).all()
    assert (np.abs(np.diff(ends) - count * RANKS / 20) <= 1).all()


def test_a_small_difference_of_speeds_costs_no_round_of_rollouts() -> None:
    slices = Slices(RANKS)
    for noise in ([1.02, 1.0, 0.99], [0.98, 1.01, 1.0], [1.05, 1.0, 1.0]):
        assert np.diff(slices.cut(80)).tolist() == [32, 32, 16]
        slices.balance(4 * np.array(noise))


def test_a_slow_node_gets_less_and_a_node_that_has_recovered_gets_its_share_again() -> None:
    slices = Slices(RANKS)

    def after(seconds: list[float], generations: int, count: int = 800) -> list[int]:
        for _ in range(generations):
            slices.balance(np.diff(slices.cut(count)) / RANKS * seconds)
        return np.diff(slices.cut(count)).tolist()

    assert after([2.0, 1.0, 1.0], 12) == [200, 400, 200]
    assert after([1.0, 1.0, 1.0], 12) == [320, 320, 160]
    assert min(after([1e6, 1.0, 1.0], 1, count=20)) > 0  # without an individual its speed would stay unknown
    assert after([1.0, 1.0, 1.0], 12) == [320, 320, 160]
