"""The figures of `ees-mpi measure`: what is drawn, from where axes begin, and how far measures are to be trusted."""

import numpy as np
import pytest

import ees_mpi
from ees_mpi.analysis.figures.curves import measure, standard_error
from ees_mpi.analysis.figures.style import drawing
from ees_mpi.analysis.numbers.scale import Scale
from ees_mpi.analysis.offspring import Offspring
from ees_mpi.outcomes import Outcomes
from ees_mpi.run.file import Run

WORDS = {"task.name": "gymnasium", "task.env": "support.own_place:PlacePoint-v0", "task.behavior": "final_observation"}
SMALL = {"task.steps": 3, "task.hidden": [2], "population.size": 4, "noise.size": 1000, "run.generations": 1}
LABEL = "A point in the plane that was trained for one generation, which is not long, by hand and with great care"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("measured")
    ees_mpi.train("gymnasium-ant-maxent", folder / "run.h5", settings={**WORDS, **SMALL}).close()
    return ees_mpi.measure(
        folder / "run.h5", std=[0.2, 0.5], count=40, starts=3, label=LABEL, out=folder / "measured.h5"
    )


def test_the_map_of_several_starts_shows_where_rollouts_end_at_one_scale(measured: Run) -> None:
    with drawing():
        figure = measure([measured], 1.0)
    panel = figure.axes[5]
    drawn = np.concatenate([points.get_offsets() for points in panel.collections])
    np.testing.assert_array_equal(drawn, measured["behavior_by_start"][::-1].reshape(-1, 2))
    assert not panel.lines and panel.get_box_aspect() == 1  # the policy's mean over the starts is no place
    assert np.ptp(panel.get_xlim()) == pytest.approx(np.ptp(panel.get_ylim()))
    assert panel.get_title().startswith("where rollouts end:")
    assert "means over 3 starts; bars: two standard errors" in figure.legends[0].get_title().get_text()


def test_the_standard_error_of_a_mean_is_that_of_the_textbook() -> None:
    x = 3.0 + np.random.default_rng(0).normal(size=(400, 1))
    outcomes = Outcomes(x, x[:, 0], *2 * (np.ones(400, bool),), np.zeros((0, 1)))
    mutations = Offspring(outcomes, x, np.zeros(400, np.int32), 1)
    expected = np.abs(x).std() / 20
    assert standard_error(mutations, "distance_mean", Scale(np.ones(1), 5.0)) == pytest.approx(expected, rel=0.5)
    assert np.isnan(standard_error(mutations.at(np.array([3])), "distance_mean", Scale(np.ones(1), 5.0)))
