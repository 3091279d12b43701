"""Which individuals are chosen, on behaviours that one can check by eye."""

import numpy as np

from ees_mpi.analysis.offspring import extremes

NAN = np.nan


def test_extremes_on_a_line_are_the_leftmost_and_the_rightmost_in_order() -> None:
    x = np.array([[3.0], [-1.0], [NAN], [0.0], [5.0], [-4.0]])
    assert extremes(x, 4) == [5, 1, 0, 4]
    assert extremes(x, 3) == [5, 1, 4]


def test_extremes_in_a_plane_are_the_farthest_in_each_direction_and_none_comes_twice() -> None:
    around = np.array([[0.1, 0.0], [2.0, 0.0], [0.0, 3.0], [-1.0, 0.0], [0.0, -2.0], [NAN, 9.0]])
    assert extremes(around, 4) == [1, 2, 3, 4]
    to_one_side = np.array([[1.0, 0.0], [2.0, 0.1], [3.0, 0.0]])
    assert sorted(extremes(to_one_side, 3)) == [0, 1, 2]


def test_extremes_of_longer_behaviors_lie_far_from_each_other() -> None:
    cluster = np.random.default_rng(0).normal(0, 0.01, (10, 3))
    corners = np.array([[9.0, 0, 0], [0, 8.0, 0], [0, 0, 7.0]])
    assert sorted(extremes(np.vstack([cluster, corners]), 3)) == [10, 11, 12]


def test_never_more_extremes_than_valid_individuals() -> None:
    assert extremes(np.array([[NAN], [1.0], [NAN]]), 8) == [1]
    assert [extremes(np.full((3, size), NAN), 8) for size in (1, 2, 3)] == [[], [], []]
