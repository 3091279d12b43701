"""What `resume` and `info` say of a run file that is not whole, and what a run says whose file was removed."""

import os
import signal
from pathlib import Path

import pytest
from support.program import TINY, done, info, refusal, train
from support.run_files import assert_same_bits
from support.small_runs import walk

import ees_mpi
from ees_mpi import RunFileError
from ees_mpi.store import journal
from ees_mpi.store.lock import Lock
from ees_mpi.store.writer import Writer

LONG = (*TINY, "run.generations=20", "run.fsync=false")  # two chunks


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "run.h5"
    walk(path, "interference-maxvar", *LONG, stops=(18, 20), closed=True)
    return path


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A run of 20 generations: 18 are in the file, one in its journal."""
    walk(tmp_path / "run.h5", "interference-maxvar", *LONG, stops=(18, 19), closed=False)
    return tmp_path / "run.h5"


@pytest.mark.parametrize("left", [-7, 0])  # within the last record; nothing
def test_a_journal_that_was_cut_is_told_by_info_and_by_resume(left: int, killed: Path, whole: Path) -> None:
    beside = journal.path_of(killed)
    records = journal.read(killed).records
    last = len(journal.encode(records[-1]))
    beside.write_bytes(beside.read_bytes()[:left])
    ignored = last - 7 if left else 0
    sentence = f"{beside} ends within a record: {ignored} bytes after generation 17 are ignored"
    assert info(killed)["damage"] == sentence
    held = Lock(killed)
    assert info(killed)["damage"] is None  # its writer may be about to write the rest
    held.release()
    assert f"warning: {sentence}\n" in done("resume", killed).stdout
    assert info(killed)["damage"] is None
    assert_same_bits(killed, whole)


def test_an_interrupted_run_whose_file_was_removed_does_not_call_it_saved(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"

    def remove(record: object) -> None:
        out.unlink()
        os.kill(os.getpid(), signal.SIGTERM)

    tiny = {"population.size": 20, "run.generations": 6, "noise.size": 5000, "run.fsync": False}
    with pytest.raises(RunFileError, match="was removed or moved while this run was writing"):
        ees_mpi.train("interference-maxvar", out, settings=tiny, on_generation=remove)


def test_a_run_that_was_moved_without_its_journal_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "close", Writer.release)  # as a kill does
    run, moved = tmp_path / "run.h5", tmp_path / "moved.h5"
    train(run)
    run.rename(moved)
    code, line = refusal("resume", run)
    assert code == 3 and f"{run} does not exist, but {run}.journal does" in line
    sentence = f"{moved}.journal is missing, and the writer has not closed the run file: generations from 0 on may be"
    assert sentence in str(info(moved)["damage"])
    journal.path_of(run).rename(journal.path_of(moved))
    assert info(moved)["damage"] is None and info(moved)["generations"] == 6
    journal.path_of(moved).unlink()
    monkeypatch.undo()
    assert f"warning: {sentence}" in done("resume", moved).stdout
