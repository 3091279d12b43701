"""The run file as its readers meet it: finished, running, killed, damaged, not ours."""

import os
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray
from support.run_files import assert_same_bits, edited
from support.small_runs import job_of, until

from ees_mpi import open_run
from ees_mpi.config import Config
from ees_mpi.errors import RunFileError
from ees_mpi.generation.state import State, first_state
from ees_mpi.store import chunks, fold, hdf5, journal, layout
from ees_mpi.store.fold import repair
from ees_mpi.store.writer import RunWriter
from ees_mpi.training import train


class Half:
    """A run that stops after some generations without closing its file, as a killed one does."""

    def __init__(self, path: Path, config: Config, generations: int, fold_at: int | None = None):
        self.path, self.config = path, config
        self.state = first_state(config)
        self.writer = RunWriter.create(path, config, self.state.arrays())
        self.writer.begin_session(0, 1, 1, {"numpy": "0"})
        self.state = train(job_of(until(config, generations)), self.state, self.writer)
        if fold_at == generations:
            self.writer.fold()

    def kill(self) -> None:
        self.writer.release()


@pytest.fixture(params=["in the journal", "half folded"])
def running(request: pytest.FixtureRequest, tmp_path: Path, tiny: Callable[..., Config]) -> Iterator[Half]:
    half = Half(tmp_path / "run.h5", tiny(), 4, fold_at=4 if request.param == "half folded" else None)
    yield half
    if Path(f"{half.path}.lock").exists():
        half.kill()


def full(*arguments: object) -> None:
    """Stand in for a function that writes to a full disk."""
    raise OSError(28, "No space left on device")


def dataset(path: Path) -> xarray.Dataset:
    return xarray.open_dataset(path, group="generations", engine="h5netcdf")


def test_xarray_opens_a_finished_file_with_named_axes_beside_open_run(finished: Path) -> None:
    with dataset(finished) as opened, open_run(finished) as run:
        fields = layout.present(run.config)
        assert {name: opened[name].dims[1:] for name in run} == {name: field.axes for name, field in fields.items()}
        assert opened.sizes["generation"] == run.generations == 6 and opened.sizes["individual"] == 20
    with open_run(finished) as run, dataset(finished) as opened:
        assert opened.sizes["generation"] == run.generations


def test_xarray_opens_a_running_and_a_killed_file(running: Half) -> None:
    before = running.path.read_bytes()
    with dataset(running.path) as opened:
        assert opened["behavior"].dims == ("generation", "individual", "behavior_dim")
    running.kill()
    assert running.path.read_bytes() == before


def test_open_run_shows_every_committed_generation_at_any_time(running: Half) -> None:
    with open_run(running.path) as run:
        assert run.generations == 4 and not run.complete
        assert run["behavior"].shape == (4, 20, 1)
        assert State.from_arrays(run.state_arrays()).digest() == running.state.digest()
        assert run["state_sha256"][-1].decode() == running.state.digest().hex()
        assert [session["first_generation"] for session in run.sessions()] == [0]


def test_repairing_a_sound_file_changes_nothing(finished: Path, copied: Path) -> None:
    repair(copied)
    assert copied.read_bytes() == finished.read_bytes()


def test_a_kill_between_fold_and_new_journal_counts_nothing_twice(running: Half) -> None:
    old = journal.path_of(running.path).read_bytes()
    running.writer.fold()
    journal.path_of(running.path).write_bytes(old)
    running.kill()
    with open_run(running.path) as run:
        assert run.generations == 4 and run["fitness"].shape[0] == 4
    repair(running.path)
    with open_run(running.path) as run:
        assert run.generations == 4 and len(run.sessions()) == 1


def test_a_fold_that_fails_harms_neither_file_nor_journal(running: Half, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = running.path.read_bytes()
    monkeypatch.setattr(shutil, "copymode", full)  # the second step of a fold
    with pytest.raises(RunFileError, match=r"No space left on device.*committed generations are safe"):
        running.writer.close()
    assert running.path.read_bytes() == whole
    assert not Path(f"{running.path}.folding").exists()
    with open_run(running.path) as run:
        assert run.generations == 4


def test_a_file_that_hdf5_cannot_open_again_takes_the_place_of_nothing(
    running: Half, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HDF5 1.14 has written files whose first block had a wrong checksum."""
    whole, close = running.path.read_bytes(), h5py.File.close

    def closed_and_damaged(file: h5py.File) -> None:
        written = file.filename if file and file.mode == "r+" else ""
        close(file)
        if written:
            harm(Path(written))

    monkeypatch.setattr(h5py.File, "close", closed_and_damaged)
    with pytest.raises(RunFileError, match="has written a file that it cannot read"):
        running.writer.close()
    with pytest.raises(RunFileError, match="has written a file that it cannot read"):
        Half(running.path.with_name("new.h5"), running.config, 0)
    assert {path.name for path in running.path.parent.iterdir()} == {"run.h5", "run.h5.journal"}
    assert running.path.read_bytes() == whole
    with open_run(running.path) as run:
        assert run.generations == 4


def harm(path: Path) -> None:
    """Change the checksum of the first block of an HDF5 file."""
    raw = bytearray(path.read_bytes())
    raw[44] ^= 1
    path.write_bytes(raw)


def test_a_new_file_on_a_full_disk_is_one_error_and_leaves_nothing(tmp_path: Path, tiny: Callable[..., Config]) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(RunFileError, match=r"cannot write .*run.h5: File too large$"):
            Half(tmp_path / "run.h5", tiny(), 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_each_step_is_on_the_disk_before_the_next_one(
    tmp_path: Path, tiny: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def noted(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any, *rest: Any) -> Any:
            path = Path(os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else target)
            steps.append(f"{name} {'folder' if path == tmp_path else path.name}")
            return original(target, *rest)

        return call

    for name in ("write", "fsync", "replace"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    in_place = ["fsync run.h5.folding", "replace run.h5.folding", "fsync folder"]
    new_journal = ["write run.h5.journal.new", "fsync run.h5.journal.new", "replace run.h5.journal.new", "fsync folder"]
    record = ["write run.h5.journal", "fsync run.h5.journal"]
    half = Half(tmp_path / "run.h5", tiny(), 2)  # with a session
    assert steps == [*in_place, *new_journal, *3 * record]
    steps.clear()
    half.writer.fold()
    assert steps == [*in_place, *new_journal]
    steps.clear()
    half.writer.close()
    assert steps == in_place and [path.name for path in tmp_path.iterdir()] == ["run.h5"]


def test_slices_of_a_series_are_numpys_slices(running: Half) -> None:
    with open_run(running.path) as run:
        series, whole = run["behavior"], np.asarray(run["behavior"][:])
        for key in [0, -1, slice(1, 3), slice(None, None, 2), slice(None, None, -1), slice(3, 1), (slice(2), 5)]:
            np.testing.assert_array_equal(series[key], whole[key])
        np.testing.assert_array_equal(series[[0, 2]], whole[[0, 2]])
        np.testing.assert_array_equal(series[1, 2:5, 0], whole[1, 2:5, 0])
        assert len(list(series)) == 4


def test_a_file_that_is_not_a_run_file_is_refused_with_the_reason(tmp_path: Path, finished: Path, copied: Path) -> None:
    def refusal(path: Path) -> str:
        with pytest.raises(RunFileError) as caught:
            open_run(path)
        return str(caught.value)

    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = 1
    assert "expected a run file" in refusal(tmp_path / "other.h5")
    (tmp_path / "cut.h5").write_bytes(finished.read_bytes()[:-3000])
    assert "truncated" in refusal(tmp_path / "cut.h5")
    harm(shutil.copy(finished, tmp_path / "old.h5"))
    assert refusal(tmp_path / "old.h5").endswith("is not a readable HDF5 file; expected a run file")
    (tmp_path / "old.h5.journal").touch()
    assert "h5py before 3.16" in refusal(tmp_path / "old.h5") and "old.h5.journal has" in refusal(tmp_path / "old.h5")
    for version, words in ((99, "has format 99"), ("one", "expected a run file")):
        with h5py.File(copied, "r+") as file:
            file.attrs["format_version"] = version
        assert words in refusal(copied)


def test_other_noise_than_the_files_is_refused(copied: Path) -> None:
    with edited(copied) as file:
        file.attrs["noise_digest"] = "0" * 64
    with open_run(copied) as run:
        for use in (lambda: run.individual(0, 0), lambda: RunWriter.resume(copied, run.config)):
            with pytest.raises(RunFileError, match="noise table of this machine differs"):
                use()


def test_a_journal_run_and_a_folded_run_end_in_the_same_bits(tmp_path: Path, tiny: Callable[..., Config]) -> None:
    plain = Half(tmp_path / "plain.h5", tiny(), 6)
    often = Half(tmp_path / "often.h5", tiny("interference-maxvar", "run.fold_minutes=1e-9"), 6)
    for half in (plain, often):
        half.writer.close()
        with h5py.File(half.path) as file:
            assert file["sessions/end"][-1] == file["generations/seconds_clock"][-1]
    assert_same_bits(plain.path, often.path)


def test_more_generations_on_resume_are_remembered_through_a_kill(tmp_path: Path, tiny: Callable[..., Config]) -> None:
    Half(tmp_path / "run.h5", tiny(), 6).writer.close()
    longer = tiny("interference-maxvar", "run.generations=50")
    writer, _ = RunWriter.resume(tmp_path / "run.h5", longer)
    writer.begin_session(6, 1, 1, {})
    writer.release()
    with open_run(tmp_path / "run.h5") as run:
        assert run.config.run.generations == 50 and not run.complete
    repair(tmp_path / "run.h5")
    with open_run(tmp_path / "run.h5") as run:
        assert run.config.run.generations == 50 and not run.complete


def test_a_journal_that_leaves_a_gap_is_refused_and_nothing_touched(running: Half, tmp_path: Path) -> None:
    early = tmp_path / "copy.h5"
    shutil.copy(running.path, early)
    running.writer.fold()
    train(job_of(running.config), running.state, running.writer)
    running.writer.fold()
    row = {**_last_row(running.path), "state_sha256": np.array(running.state.digest().hex(), "S64")}
    running.writer.commit(6, row, running.state.arrays())
    shutil.copy(journal.path_of(running.path), journal.path_of(early))
    before = early.read_bytes()
    with pytest.raises(RunFileError, match="not copied at the same moment"):
        open_run(early)
    with pytest.raises(RunFileError, match="not copied at the same moment"):
        repair(early)
    found = journal.read(early)
    with pytest.raises(RunFileError, match="and its journal begins with 6: they were not copied"):
        fold.fold(early, found.records, found.state, found.run_id, closed=False)
    assert early.read_bytes() == before and journal.path_of(early).exists()


def _last_row(path: Path) -> dict[str, np.ndarray]:
    with open_run(path) as run:
        return {name: run[name][-1] for name in run.names}


def test_commits_continue_in_the_old_journal_if_a_new_one_fails(running: Half, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAGIC", property(full))  # any failure while the header is written
    with pytest.raises((OSError, TypeError)):
        running.writer.fold()
    monkeypatch.undo()
    running.writer.commit(4, _last_row(running.path), running.state.arrays())
    running.kill()
    with open_run(running.path) as run:
        assert run.generations == 5


def test_a_link_stays_a_link_and_the_mode_stays_the_mode(tmp_path: Path, tiny: Callable[..., Config]) -> None:
    real, link = tmp_path / "real.h5", tmp_path / "link.h5"
    Half(real, tiny(), 4).writer.close()
    real.chmod(0o600)
    link.symlink_to(real)
    writer, _ = RunWriter.resume(link, tiny())
    writer.begin_session(4, 1, 1, {})
    writer.close()
    assert link.is_symlink() and real.stat().st_mode & 0o777 == 0o600
    with open_run(real) as run:
        assert len(run.sessions()) == 2


def test_a_big_journal_is_folded(tmp_path: Path, tiny: Callable[..., Config], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ees_mpi.store.writer.FOLD_BYTES", 1000)
    half = Half(tmp_path / "run.h5", tiny(), 6)
    with open_run(half.path) as run:
        assert len(run.journal_records) <= 1 and run.generations == 6
    assert len(half.writer._records) <= 1
    half.writer.close()
    with open_run(half.path) as run:
        assert run.generations == 6


@pytest.mark.parametrize(
    ("fsync", "message"), [("true", "All committed generations are safe"), ("false", "may be lost")]
)
def test_generations_are_called_safe_only_where_they_are(
    fsync: str, message: str, tmp_path: Path, tiny: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny("interference-maxvar", f"run.fsync={fsync}")
    half = Half(tmp_path / "run.h5", config, 2)
    monkeypatch.setattr("ees_mpi.store.journal.JournalWriter.append_bytes", full)
    with pytest.raises(RunFileError, match=rf"No space left on device\. .*{message}"):
        half.writer.note_config(config)
    half.kill()
    with pytest.raises(RunFileError, match=r"No space left on device$"):  # nothing was committed to a new file
        RunWriter.create(tmp_path / "new.h5", config, half.state.arrays())


def test_an_array_that_a_state_has_no_more_leaves_the_file(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "file.h5", "w") as file:
        hdf5.put_datasets(file, {"mean": np.ones(2), "memory/archive": np.ones(3)})
        hdf5.put_datasets(file, {"mean": np.ones(2)})
        assert hdf5._names(file) == ["mean"]


def test_rows_of_another_shape_cut_nothing_that_is_there(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "file.h5", "w") as file:
        dataset = chunks.create(file, "rows", (3,), np.float32, 4)
        chunks.append(dataset, np.ones((2, 3)))
        with pytest.raises(ValueError, match=r"expected rows of shape \(3,\), got \(2,\)"):
            chunks.append(dataset, np.ones((1, 2)))
        np.testing.assert_array_equal(dataset[:], np.ones((2, 3)))
