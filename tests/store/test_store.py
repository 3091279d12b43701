"""A file of the store as its writer and its readers meet it."""

import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray
from support.small_store import append, create, made, row, state

from ees_mpi.errors import RunFileError
from ees_mpi.store import journal, writer
from ees_mpi.store.layout import Array, Layout
from ees_mpi.store.reader import Reader, read_arrays

FOLDED = pytest.mark.parametrize("fold_at", [0, 2, 4])


def full(*arguments: object) -> None:
    """Stand in for a function that writes to a full disk."""
    raise OSError(28, "No space left on device")


def check(path: Path, generations: int, sessions: int = 1) -> None:
    """Check that a file has these generations, the last state, and its sessions."""
    with Reader(path) as file:
        assert (file.generations, len(file.sessions())) == (generations, sessions)
        for name in file:
            expected = np.array([row(number)[name] for number in range(generations)]).astype(file[name].dtype)
            assert file[name][:].tobytes() == expected.tobytes(), name
        assert {name: each.tobytes() for name, each in file.state_arrays().items()} == {
            name: each.tobytes() for name, each in state(generations - 1).items()
        }


@FOLDED
@pytest.mark.parametrize("closed", [True, False])
def test_what_was_committed_is_read_at_any_time(fold_at: int, closed: bool, tmp_path: Path) -> None:
    path = made(tmp_path / "run.h5", 4, fold_at, closed)
    check(path, 4)
    with Reader(path) as file:
        assert file.attributes["seed"] == 3 and file.closed is closed and not file.cut
        assert file.sessions() == [{"host": "here", "start": 0.5, "first_generation": 0, "end": 3.0}]
    assert writer.repair(path) == ""
    assert [each.name for each in tmp_path.iterdir()] == ["run.h5"]
    check(path, 4)


def test_a_file_goes_on_where_it_ends(tmp_path: Path) -> None:
    path = made(tmp_path / "run.h5", 3, 2, closed=False)
    for _ in range(2):
        file = writer.resume(path)
        assert file.state["mean"].tobytes() == state(file.generations - 1)["mean"].tobytes()
        file.begin_session({"host": "there"})
        file.change({"seed": file.generations})
        append(file, 1)
        file.close()
    check(path, 5, 3)
    with Reader(path) as opened:
        assert opened.attributes["seed"] == 4
        assert [session["first_generation"] for session in opened.sessions()] == [0, 3, 4]
        assert [session["end"] for session in opened.sessions()] == [2.0, 3.0, 4.0]


@FOLDED
def test_slices_of_a_series_are_numpys_slices(fold_at: int, tmp_path: Path) -> None:
    with Reader(made(tmp_path / "run.h5", 4, fold_at, closed=False)) as file:
        series, whole = file["behavior"], np.asarray(file["behavior"])
        for key in [0, -1, slice(1, 3), slice(None, None, 2), slice(None, None, -1), slice(3, 1), (slice(2), 4), ()]:
            np.testing.assert_array_equal(series[key], whole[key])
        np.testing.assert_array_equal(series[[0, 2]], whole[[0, 2]])
        np.testing.assert_array_equal(series[1, 2:5, 0], whole[1, 2:5, 0])
        assert len(list(series)) == len(series) == 4
        with pytest.raises(IndexError, match=r"generation 4 is not in .*, which has 4"):
            series[4]


def test_xarray_opens_a_finished_a_running_and_a_killed_file_with_named_axes(tmp_path: Path) -> None:
    for closed in (True, False):
        path = made(tmp_path / f"{closed}.h5", 4, 2, closed)
        before = path.read_bytes()
        with xarray.open_dataset(path, group="generations", engine="h5netcdf") as opened:
            assert opened["behavior"].dims == ("generation", "individual", "behavior_dim")
            assert opened["behavior"].attrs["about"] == "a behaviour"
            assert opened.sizes["generation"] == (4 if closed else 2)
        assert path.read_bytes() == before


def test_repairing_a_sound_file_changes_nothing(tmp_path: Path) -> None:
    path = made(tmp_path / "run.h5", 3)
    before = path.read_bytes()
    writer.repair(path)
    assert path.read_bytes() == before


def test_files_have_no_text_of_variable_length(tmp_path: Path) -> None:
    found: list[str] = []

    def note(name: str, item: h5py.HLObject) -> None:
        types = {f"{name}@{each}": item.attrs.get_id(each).dtype for each in item.attrs}
        if isinstance(item, h5py.Dataset):
            types[name] = item.dtype
        texts = {each: h5py.check_string_dtype(kind) for each, kind in types.items()}
        found.extend(each for each, kind in texts.items() if kind and kind.length is None)

    with h5py.File(made(tmp_path / "run.h5", 3)) as file:
        note("/", file)
        file.visititems(note)
    assert found == []


def test_a_long_text_is_an_attribute_too(tmp_path: Path) -> None:
    file, text = create(tmp_path / "run.h5"), "a long config, " * 20_000
    file.change({"config": text})
    file.close()
    with Reader(tmp_path / "run.h5") as opened:
        assert opened.attributes["config"] == text


def test_each_step_is_on_the_disk_before_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    file = create(tmp_path / "run.h5")
    append(file, 2)
    assert steps == [*in_place, *new_journal, *3 * record]  # a session, two generations
    steps.clear()
    file.fold()
    assert steps == [*in_place, *new_journal]
    steps.clear()
    file.close()
    assert steps == in_place and [path.name for path in tmp_path.iterdir()] == ["run.h5"]


def test_a_fold_that_fails_harms_neither_file_nor_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = create(tmp_path / "run.h5")
    append(file, 3)
    before = file.path.read_bytes()
    monkeypatch.setattr(shutil, "copymode", full)  # the second step of a fold
    with pytest.raises(RunFileError, match=r"No space left on device.*committed generations are safe"):
        file.close()
    assert file.path.read_bytes() == before and not Path(f"{file.path}.folding").exists()
    check(file.path, 3)


def test_a_fold_between_commits_that_fails_is_a_warning_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "FOLD_BYTES", 1)
    file = create(tmp_path / "run.h5")
    with monkeypatch.context() as broken:
        broken.setattr(os, "posix_fallocate", full)
        append(file, 2)
    assert "could not fold the journal" in file.pop_warning() and file.pop_warning() == ""
    append(file, 1)
    file.close()
    check(file.path, 3)


def test_commits_continue_in_the_old_journal_if_a_new_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = create(tmp_path / "run.h5")
    append(file, 2)
    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", lambda *paths: full() if "journal" in str(paths[0]) else os.rename(*paths))
        with pytest.raises(OSError, match="No space"):
            file.fold()
    append(file, 1)
    file.release()
    check(file.path, 3)


def test_a_kill_between_fold_and_new_journal_counts_nothing_twice(tmp_path: Path) -> None:
    file = create(tmp_path / "run.h5")
    append(file, 4)
    old = journal.path_of(file.path).read_bytes()
    file.fold()
    journal.path_of(file.path).write_bytes(old)
    file.release()
    check(file.path, 4)
    writer.repair(file.path)
    check(file.path, 4)


def test_a_file_that_hdf5_cannot_open_again_takes_the_place_of_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HDF5 1.14 has written files whose first block had a wrong checksum."""
    file = create(tmp_path / "run.h5")
    append(file, 2)
    before, close = file.path.read_bytes(), h5py.File.close

    def closed_and_damaged(opened: h5py.File) -> None:
        written = Path(opened.filename) if opened and opened.mode == "r+" else None
        close(opened)
        if written:
            raw = bytearray(written.read_bytes())
            raw[44] ^= 1
            written.write_bytes(raw)

    monkeypatch.setattr(h5py.File, "close", closed_and_damaged)
    for fails in (file.close, lambda: create(tmp_path / "new.h5")):
        with pytest.raises(RunFileError, match="has written a file that it cannot read"):
            fails()
    monkeypatch.undo()
    assert {path.name for path in tmp_path.iterdir()} == {"run.h5", "run.h5.journal"}
    assert file.path.read_bytes() == before
    check(file.path, 2)


def test_a_new_file_on_a_full_disk_is_one_error_and_leaves_nothing(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, limits[1]))
    try:
        with pytest.raises(RunFileError, match=r"cannot write .*run.h5: File too large$"):
            create(tmp_path / "run.h5", advice="")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_a_start_that_fails_leaves_no_lock_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path / "run.h5", 4, 2, closed=False)
    with monkeypatch.context() as broken:
        broken.setattr(os, "posix_fallocate", full)
        for start in (writer.resume, writer.repair):
            with pytest.raises(RunFileError, match="No space left on device"):
                start(path)
    assert not Path(f"{path}.lock").exists()
    check(path, 4)


def test_advice_is_given_only_while_the_file_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = create(tmp_path / "run.h5", advice="All is safe")
    monkeypatch.setattr(journal.JournalWriter, "append", full)
    with pytest.raises(RunFileError, match=r"No space left on device\. All is safe$"):
        file.change({"seed": 4})
    file.path.unlink()
    with pytest.raises(RunFileError, match=r"No space left on device$"):
        file.change({"seed": 4})
    with pytest.raises(RunFileError, match="was removed while this run was writing"):
        file.close()


def test_a_file_that_was_replaced_under_its_writer_is_left_as_it_is(tmp_path: Path) -> None:
    file, other = create(tmp_path / "run.h5"), made(tmp_path / "other.h5", 1).read_bytes()
    append(file, 2)
    file.path.write_bytes(other)
    with pytest.raises(RunFileError, match=r"now holds another run.* are in run.h5.journal"):
        file.close()
    assert file.path.read_bytes() == other and len(journal.read(file.path).records) == 3


def test_a_journal_that_is_much_larger_than_the_file_is_folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "FOLD_BYTES", 1000)
    file = create(tmp_path / "run.h5")
    append(file, 6)
    with Reader(file.path) as opened:
        assert opened.folded >= 4 and opened.generations == 6
    file.close()


def test_a_link_stays_a_link_and_the_mode_stays_the_mode(tmp_path: Path) -> None:
    path, link = made(tmp_path / "real.h5", 2), tmp_path / "link.h5"
    path.chmod(0o600)
    link.symlink_to(path)
    file = writer.resume(link)
    append(file, 1)
    with Reader(link) as opened:
        assert opened.generations == 3
    file.close()
    assert link.is_symlink() and path.stat().st_mode & 0o777 == 0o600
    check(path, 3)


def test_links_in_the_place_of_our_files_are_not_followed(tmp_path: Path) -> None:
    path, victim = made(tmp_path / "run.h5", 4, 2, closed=False), tmp_path / "victim"
    victim.write_text("private")
    for ending in ("folding", "journal.new"):
        Path(f"{path}.{ending}").symlink_to(victim)
    writer.resume(path).close()
    Path(f"{path}.lock").symlink_to(victim)
    with pytest.raises(RunFileError, match="symbolic link"):
        writer.resume(path)
    assert victim.read_text() == "private"


def test_a_file_that_exists_is_replaced_only_if_asked_or_without_generations(tmp_path: Path) -> None:
    path = made(tmp_path / "run.h5", 2)
    with pytest.raises(RunFileError, match="exists now: another process has created it"):
        create(path)
    create(path, overwrite=True).close()
    create(path).close()
    left = made(path.with_name("killed.h5"), 3, 2, closed=False)
    journals = journal.path_of(left).read_bytes()
    left.unlink()
    create(left).close()
    assert Path(f"{left}.journal.other-run").read_bytes() == journals


def test_readers_never_refuse_a_file_while_another_one_overwrites_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen, unlink, replace = made(tmp_path / "run.h5", 4, 3, closed=False), [], Path.unlink, os.replace

    def look(action: Callable[..., None], *words: object, **named: object) -> None:
        action(*words, **named)
        with Reader(path) as opened:
            seen.append(opened.generations)

    monkeypatch.setattr(Path, "unlink", lambda *words, **named: look(unlink, *words, **named))
    monkeypatch.setattr(os, "replace", lambda *words: look(replace, *words))
    file = create(path, overwrite=True)
    assert set(seen) == {4, 3, 0}  # with its journal, without it, and replaced
    file.release()
    monkeypatch.undo()
    made(path.with_name("old.h5"), 4, 3, closed=False)
    newer = path.read_bytes(), journal.path_of(path).read_bytes()
    for name, data in zip(("old.h5", "old.h5.journal"), newer, strict=True):
        (tmp_path / f"new-{name}").write_bytes(data)
    opened_by = h5py.File

    def overwritten(*words: Any, **named: Any) -> h5py.File:
        monkeypatch.undo()
        for name in ("old.h5", "old.h5.journal"):
            (tmp_path / f"new-{name}").rename(tmp_path / name)
        return opened_by(*words, **named)

    monkeypatch.setattr(h5py, "File", overwritten)  # after the journal was read
    with Reader(tmp_path / "old.h5") as opened:
        assert opened.damage == ""


@pytest.mark.parametrize(
    ("arrays", "sizes", "said"),
    [
        ([], {}, "is empty"),
        ([("twice", (), "<f8"), ("twice", (), "<f8")], {}, "there twice"),
        ([("Upper", (), "<f8")], {}, "unusable"),
        ([("generation", (), "<f8")], {}, "there twice"),
        ([("one", ("nowhere",), "<f8")], {}, "unknown type or axis"),
        ([("one", (), ">f8")], {}, "unknown type or axis"),
        ([("one", ("axis",), "<f8")], {"axis": 0}, "not a positive number"),
        ([("one", ("axis",), "<f8")], {"axis": 10**18}, "."),
    ],
)
def test_a_list_of_arrays_that_cannot_be_is_refused(
    arrays: list[tuple[str, tuple[str, ...], str]], sizes: dict[str, int], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        Layout([Array(*each, "about") for each in arrays], sizes)


def test_a_generation_of_other_arrays_than_the_list_is_not_committed(tmp_path: Path) -> None:
    file = create(tmp_path / "run.h5")
    append(file, 1)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"behavior": np.zeros((5, 3))}, r"behavior is float64\(5, 3\); expected <f8\(5, 2\)"),
        ({"valid": np.zeros(5)}, r"valid is float64\(5,\); expected \|u1\(5,\)"),
        ({"clock": "noon"}, "clock is <U4"),
    ]
    for change, said in changes:
        with pytest.raises(ValueError, match=said):
            file.append({**row(1), **change}, state(1))
    with pytest.raises(ValueError, match="has no array behavior"):
        file.append({"clock": 1.0}, state(1))
    file.append({**row(1), "more": np.ones(3)}, state(1))  # what is not in the list is not kept
    file.close()
    check(file.path, 2)


def test_small_files_of_arrays_come_back_as_they_were_written(tmp_path: Path) -> None:
    path, arrays = tmp_path / "small.h5", {"a/one": np.arange(3.0), "b": np.array(7), "none": np.zeros((0, 2))}
    writer.write_arrays(path, "ees_mpi thing", {"note": "an ä", "number": 2.5}, arrays)
    attributes, found = read_arrays(path, "ees_mpi thing")
    assert attributes["note"] == "an ä" and attributes["number"] == 2.5
    assert {name: (each.dtype, each.shape, each.tobytes()) for name, each in found.items()} == {
        name: (each.dtype, each.shape, each.tobytes()) for name, each in arrays.items()
    }
    with pytest.raises(RunFileError, match="of the kind 'ees_mpi thing'; expected a file of the kind 'ees_mpi run'"):
        Reader(path)


def test_the_file_does_not_grow_with_folds_that_add_nothing(tmp_path: Path) -> None:
    file, sizes = create(tmp_path / "run.h5"), []
    append(file, 1)
    for _ in range(4):
        file.fold()
        sizes.append(file.path.stat().st_size)
    file.close()
    assert sizes[1] == sizes[-1]
