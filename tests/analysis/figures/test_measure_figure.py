"""The figures of `ees-mpi measure`: what is drawn, from where axes begin, and how far measures are to be trusted."""

import numpy as np
import pytest

from ees_mpi.analysis.figures.curves import standard_error
from ees_mpi.generation import Outcomes
from ees_mpi.metrics import Sample, Settings
from ees_mpi.ranks import Ranks


def test_the_standard_error_of_a_mean_is_that_of_the_textbook() -> None:
    x = 3.0 + np.random.default_rng(0).normal(size=(400, 1))
    outcomes = Outcomes(x, x[:, 0], *2 * (np.ones(400, bool),), np.zeros((0, 1)))
    mutations = Sample(outcomes, Settings(1, places=1), Ranks(), np.zeros(400, np.int32))
    expected = np.abs(x).std() / 20
    assert standard_error(mutations, "distance_mean") == pytest.approx(expected, rel=0.5)
    assert np.isnan(standard_error(mutations.at(np.array([3])), "distance_mean"))
