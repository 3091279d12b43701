"""`ees-mpi metrics`: measures from run, running and sample files."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.program import ees
from support.small_runs import Zoo, seeds, walk

from ees_mpi import open_run
from ees_mpi.analysis.offspring import read_offspring

pytestmark = pytest.mark.usefixtures("there")


@pytest.fixture(scope="module")
def ant(zoo: Zoo) -> Path:
    return zoo["ant"]


def measured(*arguments: object) -> list[dict]:
    said = ees("metrics", *arguments, "--json")
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


def test_the_logged_metrics_are_measured_again_with_the_same_bits(ant: Path) -> None:
    rows = measured(ant, "--all", "--bandwidth", 1)  # that of the run
    with h5py.File(ant) as file:
        for g, row in enumerate(rows):
            assert row["generation"] == g
            assert row["entropy"][0]["value"] == file["generations/entropy"][g]
            assert row["distance_mean"] == file["generations/distance_mean"][g]
            assert row["distance_max"] == file["generations/distance_max"][g]
            assert row["covariance_trace"] == pytest.approx(file["generations/behavior_variance"][g].sum())
    assert len(rows) == 3 and measured(ant, "--bandwidth", 1) == rows[-1:]
    assert measured(ant, "--generation", 1, "--bandwidth", 1) == rows[1:2]


def test_a_line_for_each_measure_says_what_it_is(ant: Path) -> None:
    lines = ees("metrics", ant, "--radius", 3, "--bandwidth", "0.5,silverman").stdout.splitlines()
    assert "MaxEnt-EES, generation 2, 8 individuals" in lines[0]
    assert any(line.startswith("near_origin ") and "radius 3" in line for line in lines)
    assert sum(line.startswith("entropy ") for line in lines) == 2
    assert any(line.startswith("directions ") for line in lines)
    rows = ees("metrics", ant, "--all", "--bandwidth", 1, "--cell", 0.2).stdout.splitlines()
    assert len(rows) == 5 and rows[0].endswith("radius 5, cells of side 0.2")


def test_directions_are_of_those_only_that_went_somewhere(ant: Path, folder: Path) -> None:
    assert measured(ant)[0]["direction_uniformity"] is None  # six steps lead nowhere
    (line,) = (text for text in ees("metrics", ant).stdout.splitlines() if text.startswith("direction_uniformity"))
    assert line.split()[1] == "-" and line.endswith("(of 0 beyond radius 5)")
    (path,) = seeds(folder, ant, "some", [np.array([[6.0, 0.0], [0.0, 1.0], [0.0, -1.0], [8.0, 0.0]])])
    (row,) = measured(path)
    assert (row["direction_uniformity"], row["moved"]) == (0, 4)
    assert measured(path, "--radius", 0.5)[0]["direction_uniformity"] > 0
    (line,) = (text for text in ees("metrics", path).stdout.splitlines() if text.startswith("direction_uniformity"))
    assert line.split()[1] == "-" and line.endswith("(of 4 beyond radius 5)")  # too few for a number


def test_a_saturated_kernel_is_warned_of(ant: Path) -> None:
    assert "warning: the kernel is saturated" in ees("metrics", ant, "--bandwidth", 50).stdout
    assert "3 of 3 generations" in ees("metrics", ant, "--all", "--bandwidth", "1e-6").stdout


def test_invalid_rollouts_are_left_out_and_counted(ant: Path, folder: Path) -> None:
    (path,) = seeds(folder, ant, "spoilt", [np.array([[np.nan, 1.0], [3.0, 4.0]])])
    (row,) = measured(path)
    assert (row["individuals"], row["invalid"], row["distance_mean"]) == (4, 4, 5.0)


def test_only_the_final_position_counts_if_earlier_ones_are_noted_too(folder: Path) -> None:
    path = walk(folder / "way.h5", "ant-maxent", "task.behavior_steps=[2,6]")
    with open_run(path) as run:
        end = run["behavior"][2][:, 2:]
        np.testing.assert_array_equal(read_offspring(run).position, end)
    assert measured(path)[0]["distance_mean"] == pytest.approx(np.hypot(*end.T).mean())
