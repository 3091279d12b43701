"""`ees-mpi metrics`: those of run, running and sample files."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.program import ees
from support.small_runs import Zoo, seeds, walk

from ees_mpi import open_run
from ees_mpi.analysis.numbers.selection import sample_of

pytestmark = pytest.mark.usefixtures("there")


@pytest.fixture(scope="module")
def ant(zoo: Zoo) -> Path:
    return zoo["ant"]


def measured(*arguments: object) -> list[dict]:
    said = ees("metrics", *arguments, "--json")
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


def test_a_line_for_each_metric_or_for_each_generation(ant: Path) -> None:
    rows = measured(ant, "--all")
    assert [row["generation"] for row in rows] == [0, 1, 2] and measured(ant) == rows[-1:]
    assert measured(ant, "--generation", 1) == rows[1:2]
    lines = ees("metrics", ant, "--radius", 3).stdout.splitlines()
    assert "MaxEnt-EES, generation 2, 8 individuals; cells of 1, radius 3" in lines[0]
    assert any(line.startswith("directions ") for line in lines)
    table = ees("metrics", ant, "--all", "--cell", 0.2).stdout.splitlines()
    assert len(table) == 6 and table[0].endswith("cells of 0.2, radius 5")


def test_the_text_has_a_number_where_json_has_one(ant: Path, folder: Path) -> None:
    (path,) = seeds(folder, ant, "both", [np.array([[6.0, 0.0], [0.0, 1.0], [0.0, -9.0], [8.0, 0.0]])])
    for file in (ant, path):
        (row,), lines = measured(file), ees("metrics", file).stdout.splitlines()
        shown = {line.split()[0]: line.split()[1] for line in lines[1:]}
        assert (shown["directions"] == "-") == (row["direction_histogram"] is None)
        numbers = {name: value for name, value in row.items() if name in shown and not isinstance(value, list)}
        assert len(numbers) > 6
        assert {name for name in numbers if shown[name] == "-"} == {name for name in numbers if numbers[name] is None}
        heads, *_, cells = (line.split() for line in ees("metrics", file, "--all").stdout.splitlines()[1:5])
        assert len(heads) == len(cells) and (cells[heads.index("direction_uniformity")] == "-") == (file == ant)


def test_cells_that_do_not_fit_are_warned_of(ant: Path) -> None:
    assert "warning: in cells of this size all individuals are neighbours" in ees("metrics", ant).stdout
    assert "3 of 3 generations" in ees("metrics", ant, "--all", "--cell", "1e-6").stdout


def test_invalid_rollouts_are_left_out_and_counted(ant: Path, folder: Path) -> None:
    (path,) = seeds(folder, ant, "spoilt", [np.array([[np.nan, 1.0], [3.0, 4.0]])])
    (row,) = measured(path)
    assert (row["individuals"], row["invalid"], row["distance_mean"]) == (4, 4, 5.0)


def test_only_the_final_position_counts_if_earlier_ones_are_noted_too(folder: Path) -> None:
    path = walk(folder / "way.h5", "ant-maxent", "task.behavior_steps=[2,6]")
    with open_run(path) as run:
        end = run["behavior"][2][:, 2:]
        np.testing.assert_array_equal(sample_of(run).place, end)
    assert measured(path)[0]["distance_mean"] == pytest.approx(np.hypot(*end.T).mean())
