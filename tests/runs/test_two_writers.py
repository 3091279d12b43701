"""Two jobs that start the same run at the same moment: one trains, the other is told about it."""

from pathlib import Path

import pytest
from support.program import TINY, info, train

from ees_mpi.errors import RunFileError
from ees_mpi.runs.start import TrainRequest


def test_the_loser_of_two_first_writers_is_told_that_the_file_exists_now(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    loser = TrainRequest("interference-maxvar", TINY, out, resume=True).prepare()
    train(out)  # the other one was faster, and has ended
    with pytest.raises(RunFileError, match=r"exists now: another process .* --resume again"):
        loser.open()
    assert info(out)["complete"] is True and [path.name for path in tmp_path.iterdir()] == ["run.h5"]
