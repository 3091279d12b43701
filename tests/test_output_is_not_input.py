"""No command replaces the file that it reads, or a file that ees_mpi did not write."""

import os
import shutil
from pathlib import Path

import h5py
import pytest
from support.program import TINY, done, info, refusal, sets

TRAIN = ("train", "interference-maxvar", *sets(*TINY, "run.fsync=false"))
SAMPLE = ("sample", "run.h5", "--count", "2")


@pytest.fixture
def run(finished: Path, inside: Path) -> Path:
    shutil.copy(finished, "run.h5")
    os.symlink("run.h5", "soft.h5")
    os.link("run.h5", "hard.h5")
    return Path("run.h5")


@pytest.mark.parametrize("out", ["soft.h5", "hard.h5"])
def test_the_source_is_never_overwritten(run: Path, out: str) -> None:
    before = run.read_bytes()
    for words in (SAMPLE, ("measure", "run.h5@1", "--count", "2"), (*TRAIN, "--from", "run.h5@1")):
        code, line = refusal(*words, "--out", out, "--overwrite")
        assert code == 2 and "this is the input" in line and run.read_bytes() == before


@pytest.mark.parametrize("words", [TRAIN, SAMPLE], ids=lambda words: words[0])
def test_overwrite_replaces_our_own_files_only(run: Path, words: tuple[str, ...]) -> None:
    Path("thesis.tex").write_text("years of work")
    with h5py.File("other.h5", "w") as file:
        file["data"] = [1, 2]
    for other in ("thesis.tex", "other.h5"):
        before = Path(other).read_bytes()
        code, line = refusal(*words, "--out", other, "--overwrite")
        assert code == 3 and "was not written by ees_mpi" in line and Path(other).read_bytes() == before
        assert "delete" not in line and refusal(*words, "--out", other) == (code, line)  # no hint at --overwrite
    for _ in range(2):
        done(*words, "--out", "ours.h5", "--overwrite")


def test_pictures_and_tables_do_not_replace_their_source(run: Path) -> None:
    for name, words in (
        ("run.csv", ("export", "run.csv", "--csv")),
        ("run.html", ("report", "run.html", "-o", "run.html")),
        ("run.png", ("figure", "interference", "run.png", "-o", "run.png")),
    ):
        shutil.copy(run, name)
        code, line = refusal(*words)
        assert code == 2 and "this is the input" in line and Path(name).read_bytes() == run.read_bytes()


def test_two_commands_with_one_output_lose_no_result(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ees_mpi.commands.offspring.check_new", lambda *arguments: None)  # the first is not done yet
    shutil.copy(run, "first.h5")
    code, line = refusal(*SAMPLE, "--out", "first.h5")
    (second,) = Path().glob("first-*.h5")
    assert code == 3 and "first.h5 exists now: another process has written it; this result is in " in line
    assert line.endswith(second.name)
    assert Path("first.h5").read_bytes() == run.read_bytes() and info(second)["population_size"] == 2


def test_overwrite_does_not_replace_a_run_that_has_begun_meanwhile(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ees_mpi.commands.offspring.check_target", lambda *arguments: None)  # it has not begun yet
    shutil.copy(run, "begun.h5")
    Path("begun.h5.journal").touch()
    code, line = refusal(*SAMPLE, "--out", "begun.h5", "--overwrite")
    assert code == 3 and "begun.h5 exists now: another process has written it; this result is in " in line
    assert Path("begun.h5").read_bytes() == run.read_bytes()


def test_a_sample_that_fails_leaves_no_file_behind(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ees_mpi.store.journal.JournalWriter.append", full)
    before = sorted(os.listdir())
    code, line = refusal(*SAMPLE, "--out", "sample.h5")
    assert code == 3 and line.endswith("/sample.h5: No space left on device") and sorted(os.listdir()) == before
