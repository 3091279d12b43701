"""`export --csv`: every metric comes back, and nothing half-written stays."""

import csv
from pathlib import Path

import numpy as np
import pytest
from support.program import ees

from ees_mpi import open_run
from ees_mpi.files import written


def test_the_table_gives_back_every_metric(species: Path, tmp_path: Path) -> None:
    path, out = species, tmp_path / "run.csv"
    assert ees("export", path, "--csv", "-o", out).stdout.split() == [str(out)]
    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    with open_run(path) as run:
        assert [int(row["generation"]) for row in rows] == list(range(run.generations))
        for name in run.names:
            if len(run[name].shape) == 1 and run[name].dtype.kind == "f":
                assert np.array([float(row[name]) for row in rows]).tobytes() == np.asarray(run[name][:]).tobytes()
        read = [[float(row[f"behavior_variance_{b}"]) for b in range(run["behavior"].shape[2])] for row in rows]
        assert np.array(read).tobytes() == np.asarray(run["behavior_variance"][:]).tobytes()
        assert rows[1]["mean_fitness"] == "nan" and len(rows[0]["state_sha256"]) == 64


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
        (["--csv", "-o", "FOLDER/x.npz"], "ends in .csv"),
        (["--csv", "--policy"], "either --policy or --csv"),
    ],
)
def test_an_export_that_cannot_work_is_refused(
    finished: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    done = ees("export", finished, *(option.replace("FOLDER", str(tmp_path)) for option in options))
    assert done.returncode == 2 and message in done.stderr and list(tmp_path.iterdir()) == []
