"""Rank 0 reads and writes the run file; the other ranks get everything from rank 0."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from support.program import TESTS, TINY, info, python, run, sets

COUNT_OPENS = TESTS / "support" / "count_opens.py"


def opened(folder: Path, *words: object) -> list[Counter[str]]:
    """Run a command on two ranks; return how often each of them opened which file."""
    done = run(python(COUNT_OPENS, *words, ranks=2), EES_OPENED=str(folder))
    assert done.returncode == 0, done.stderr
    return [Counter(json.loads((folder / f"rank{rank}.json").read_text())) for rank in (0, 1)]


@pytest.mark.slow
def test_train_opens_the_run_file_on_rank_0_only_and_at_most_twice(finished: Path, tmp_path: Path) -> None:
    out = Path(shutil.copy(finished, tmp_path / "run.h5"))
    settings = sets(*TINY, "run.generations=8", "run.fsync=false")
    first, other = opened(tmp_path, "train", "interference-maxvar", *settings, "--out", out, "--resume")
    assert 0 < first["run.h5"] <= 2
    assert not other, other
    assert info(out)["generations"] == 8
