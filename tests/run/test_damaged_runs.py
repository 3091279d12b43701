"""Run files that are damaged, changed, moved or no run files at all, as the commands meet them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from support.program import TINY, done, ees, info, refusal
from support.run_files import edited, flipped
from support.small_runs import until, walk

from ees_mpi import open_run
from ees_mpi.errors import RunFileError
from ees_mpi.ranks import Ranks
from ees_mpi.run.start import begin_session
from ees_mpi.store import hdf5, journal, writer

Make = Callable[..., Path]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs that tests copy."""
    return tmp_path_factory.mktemp("written")


@pytest.fixture
def made(tmp_path: Path, written: Path) -> Make:
    """Make a run of 6 generations, folded after 3; killed with 4 of 6 if asked for. Each name is another run."""

    def make(killed: bool = False, name: str = "run.h5") -> Path:
        source = written / f"{killed}-{name}"
        if not source.exists():
            walk(source, "interference-maxvar", *TINY, stops=(3, 4 if killed else 6), closed=not killed)
        for suffix in ("", ".journal")[: 1 + killed]:
            shutil.copy(f"{source}{suffix}", tmp_path / f"{name}{suffix}")
        return tmp_path / name

    return make


@pytest.mark.parametrize(
    ("name", "row", "seen_by"),
    [
        ("generations/behavior", 5, ["resume", "verify", "export"]),
        ("generations/seconds_clock", 2, ["verify", "verify --updates", "info"]),
        ("generations/generation", 2, ["verify"]),
    ],
)
def test_a_flipped_bit_is_noticed_by_the_commands_that_rely_on_it(
    name: str, row: int, seen_by: list[str], made: Make
) -> None:
    run = made()
    flipped(run, name, row)
    options = {"resume": ["--generations", 8], "export": ["--csv"]}
    for command in seen_by:
        code, line = refusal(*command.split(), run, *options.get(command, []))
        assert code == 3 and "damaged" in line, command


def damage_final(path: Path) -> None:
    """Change a number of the last state on the disk."""
    with h5py.File(path) as file:
        place = file["final/mean"].id.get_offset()
    raw = bytearray(path.read_bytes())
    raw[place] ^= 1
    path.write_bytes(raw)


def test_a_damaged_final_is_named_and_refused_and_a_new_run_starts_from_a_mean_of_the_file(
    made: Make, tmp_path: Path
) -> None:
    run = made()
    with open_run(run) as before:
        behavior, mean = before["behavior"][:], before["mean"][3]
    damage_final(run)
    harmed = run.read_bytes()
    out = ["--count", 2, "-o", tmp_path / "s.h5"]
    for words in (["resume", run, "--generations", 8], ["repair", run], ["info", run], ["sample", run, *out]):
        code, line = refusal(*words)
        assert code == 3 and f"{run} is damaged" in line and "/final/mean" in line and "--from RUN.h5@G" in line, line
    assert run.read_bytes() == harmed and [path.name for path in tmp_path.iterdir()] == ["run.h5"]
    with open_run(run) as damaged:
        assert damaged["behavior"][:].tobytes() == behavior.tobytes()
    sets = ["--set", "population.size=20", "--set", "noise.size=5000", "--set", "run.generations=1"]
    done("train", "interference-maxvar", *sets, "--from", f"{run}@3", "--out", tmp_path / "new.h5")
    with open_run(tmp_path / "new.h5") as new:
        assert new["mean"][0].tobytes() == mean.tobytes()


def test_the_journal_of_a_killed_run_replaces_a_damaged_final(made: Make) -> None:
    run, whole = made(killed=True), made(name="whole.h5")
    damage_final(run)
    assert "4 generations, journal folded" in done("repair", run).stdout
    done("resume", run)
    assert info(run)["state_sha256"] == info(whole)["state_sha256"]


def test_a_state_that_is_not_that_of_its_last_generation_is_not_resumed(made: Make) -> None:
    run = made()
    with h5py.File(run, "r+") as file:
        state, counts = hdf5.read_arrays(file["final"]), hdf5.read_attributes(file["final"])
        hdf5.write_final(file, counts, {**state, "mean": state["mean"] + 1})  # with the right checksums
    for words in (["resume", run, "--generations", 8], ["verify", run]):
        code, line = refusal(*words)
        assert code == 3 and "its state is not that of its last generation" in line


@pytest.mark.usefixtures("quick_figures")
def test_generations_that_may_be_missing_are_told_in_one_line(made: Make, tmp_path: Path) -> None:
    run, other = made(killed=True), made(name="other.h5")
    journal.path_of(run).unlink()
    out, said = ["-o", tmp_path / "out.h5"], "run.h5.journal is missing"
    compare = ["compare", run, "--metric", "distance_mean", "--against", other]
    commands = ["metrics"], ["export", "--csv"], ["verify"], ["sample", "--count", 2, *out], ["report"], ["figure"]
    for words in ([command, run, *more] for command, *more in commands):
        assert done(*words).stderr.count(said) == 1, words
    assert ees(*compare).stderr.count(said) == 1
    assert done("resume", run).stdout.count(said) == 1
    assert info(run)["damage"] is None and done("metrics", run).stderr == ""


def test_a_resumed_run_without_its_journal_is_told_before_its_first_fold(made: Make) -> None:
    run = made()
    assert info(run)["damage"] is None
    writer.resume(run).release()
    journal.path_of(run).unlink()
    assert "generations from 6 on may be lost" in str(info(run)["damage"])
    assert "generations from 6 on may be lost" in done("resume", run).stderr  # it has nothing to do
    assert "generations from 6 on may be lost" in done("repair", run).stdout
    assert info(run)["damage"] is None


def test_a_sample_does_not_replace_an_unfinished_run(made: Make) -> None:
    run, killed = made(), made(killed=True, name="killed.h5")
    code, line = refusal("sample", run, "--count", 2, "--out", killed, "--overwrite")
    assert code == 3 and "unfinished run" in line and info(killed)["generations"] == 4


def test_a_file_that_is_not_a_run_file_is_refused_with_the_reason(tmp_path: Path, finished: Path, copied: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = 1
    (tmp_path / "folder.h5").mkdir()
    (tmp_path / "cut.h5").write_bytes(finished.read_bytes()[:-3000])
    (tmp_path / "text.h5").write_text("[run]")
    np.savez(tmp_path / "policy.npz", a=np.ones(2))
    os.mkfifo(tmp_path / "pipe.h5")
    expected = {
        "other.h5": "is HDF5, but not of ees_mpi: expected a run file",
        "folder.h5": "is a folder; expected a run file",
        "cut.h5": "is truncated",
        "text.h5": "is not a readable HDF5 file; expected a run file",
        "policy.npz": "is a policy, which has no generations; expected a run file",
        "absent.h5": "does not exist; expected a run file",
        "pipe.h5": "is not a plain file",
    }
    for name, words in expected.items():
        code, line = refusal("verify", tmp_path / name)
        assert code == 3 and words in line, line
    for version, words in ((4, "has format 4; this version of ees_mpi reads format 5"), ("one", "is neither a number")):
        with h5py.File(copied, "r+") as file:
            file.attrs["format_version"] = version
        with pytest.raises(RunFileError, match=words):
            open_run(copied)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("seed", 5, "attributes of / have a wrong checksum"),
        ("config", "of variable length", "its attribute config is neither a number nor a text of a fixed length"),
    ],
)
def test_a_changed_attribute_is_refused(name: str, value: Any, said: str, copied: Path) -> None:
    with h5py.File(copied, "r+") as file:
        file.attrs[name] = value
    with pytest.raises(RunFileError, match=f"{copied} is damaged.* {said}"):
        open_run(copied)


def test_a_config_that_cannot_be_read_is_refused_when_it_is_used(copied: Path) -> None:
    with h5py.File(copied, "r+") as file:
        hdf5.write_attributes(file, {**hdf5.read_attributes(file), "config": "[run]"})
    said = r"cannot be read by this version of ees_mpi: .*\[task\] is missing"
    with open_run(copied) as run, pytest.raises(RunFileError, match=said):
        _ = run.config


def test_other_noise_than_the_files_is_refused(copied: Path) -> None:
    with edited(copied) as file:
        file.attrs["noise_digest"] = "0" * 64
    with open_run(copied) as run, pytest.raises(RunFileError, match="noise table of this machine differs"):
        run.individual(0, 0)
    assert "noise table of this machine differs" in refusal("resume", copied, "--generations", 8)[1]


def test_more_generations_on_resume_are_remembered_through_a_kill(made: Make) -> None:
    run = made()
    with open_run(run) as opened:
        longer = until(opened.config, 50)
    file = writer.resume(run)
    begin_session(file, longer, Ranks(), {})
    file.release()
    for _ in range(2):
        with open_run(run) as opened:
            assert opened.config.run.generations == 50 and not opened.complete
        done("repair", run)
