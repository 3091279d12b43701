"""Arrays for other programs: every number comes back, read in slices, and nothing half-written stays."""

import csv
import tomllib
from pathlib import Path

import numpy as np
import pytest
from support.program import ees

from ees_mpi import open_run
from ees_mpi.commands import export_arrays as exported
from ees_mpi.files import written


def test_an_npz_has_every_array_with_its_bits_and_needs_no_pickle(ant: Path, tmp_path: Path) -> None:
    out = tmp_path / "ant.npz"
    done = ees("export", ant, "--to", "npz", "-o", out)
    assert done.returncode == 0 and done.stdout.strip() == str(out) and list(tmp_path.iterdir()) == [out]
    with np.load(out) as arrays, open_run(ant) as run:
        for name in run.names:
            assert arrays[name].tobytes() == np.asarray(run[name][:]).tobytes()
            assert arrays[name].dtype == run[name].dtype and arrays[name].shape == run[name].shape
        assert arrays["final/mean"].tobytes() == run.state_arrays()["mean"].tobytes()
        assert tomllib.loads(str(arrays["config"]))["task"]["name"] == "ant"


@pytest.mark.parametrize("robot", ["species", "finished"])
def test_csv_tables_give_back_every_number(robot: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    path = request.getfixturevalue(robot)
    done = ees("export", path, "--to", "csv", "-o", tmp_path / "run.csv")
    assert done.stdout.split() == [str(tmp_path / f"run-{what}.csv") for what in ("generations", "individuals")]
    with open(tmp_path / "run-individuals.csv", newline="") as file:
        individuals = list(csv.DictReader(file))
    with open(tmp_path / "run-generations.csv", newline="") as file:
        generations = list(csv.DictReader(file))
    with open_run(path) as run:
        size, dim = run.config.population.size, run["behavior"].shape[2]
        read = [[float(row[f"behavior_{b}"]) for b in range(dim)] for row in individuals]
        assert np.array(read).tobytes() == np.asarray(run["behavior"][:]).tobytes()
        assert [int(row["offset"]) for row in individuals] == np.asarray(run["offset"][:]).ravel().tolist()
        assert [(int(row["generation"]), int(row["individual"])) for row in individuals][size] == (1, 0)
        entropy = np.array([float(row["entropy"]) for row in generations])
        assert entropy.tobytes() == np.asarray(run["entropy"][:]).tobytes()
        assert generations[1]["mean_fitness"] == "NaN" and len(generations[0]["state_sha256"]) == 64
        assert ("mean_0_0" in generations[0]) is (run["mean"].shape[2] == 1)  # a genome of one number, not a network


def test_slices_hold_a_few_generations_each_and_all_of_them_together(finished: Path) -> None:
    with open_run(finished) as run:
        series = run["behavior"]
        row = series[0].nbytes
        read = list(exported.slices(series, limit=2 * row + 1))
        assert [start for start, _ in read] == [0, 2, 4] and all(rows.nbytes <= 2 * row for _, rows in read)
        assert np.concatenate([rows for _, rows in read]).tobytes() == np.asarray(series[:]).tobytes()
        assert [start for start, _ in exported.slices(series, limit=1)] == list(range(6))


def test_a_table_that_cannot_be_finished_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "table.csv"
    target.write_text("old")
    with pytest.raises(RuntimeError), written(target, "w") as file:
        file.write("new")
        raise RuntimeError("the disk is gone")
    assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--to", "npz", "-o", "FOLDER/x.csv"], "ends in .npz"),
        (["--to", "csv", "-o", "FOLDER/none/x.csv"], "does not exist"),
        (["--to", "csv", "-o", "FOLDER"], "ends in .csv"),
        (["--to", "csv", "--policy"], "either --policy or --to"),
        ([], "either --policy or --to"),
        (["--to", "csv", "--individual", "3"], "--individual does not belong to --to csv"),
        (["--to", "xlsx"], "xlsx"),
    ],
)
def test_an_export_that_cannot_work_is_refused(
    finished: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    done = ees("export", finished, *(option.replace("FOLDER", str(tmp_path)) for option in options))
    assert done.returncode == 2 and message in done.stderr and list(tmp_path.iterdir()) == []
