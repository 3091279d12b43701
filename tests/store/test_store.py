"""A file of the store as its writer and its readers meet it."""

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray
from support.small_store import append, begin, check, create, made, row, rows, state

from ees_mpi.errors import RunFileError
from ees_mpi.store import hdf5, journal, writer
from ees_mpi.store.layout import Array, Layout
from ees_mpi.store.reader import Reader
from ees_mpi.store.writer import Writer


def full(*arguments: object) -> None:
    """Stand in for a function that writes to a full disk."""
    raise OSError(errno.ENOSPC, "No space left on device")


class Walk:
    """A writer that does things in a random order, and what its file should say."""

    def __init__(self, path: Path, chance: random.Random):
        self.path, self.chance = path, chance
        self.file: Writer = create(path, fsync=False)
        self.count, self.seed, self.sessions = 0, 3, [(0, 0.5)]

    def commit(self) -> None:
        more = self.chance.choice((1, 3, 20))
        append(self.file, more)
        self.count += more

    def fold(self) -> None:
        self.file.fold()

    def change(self) -> None:
        self.seed = self.chance.randrange(10**9)
        self.file.change({"seed": self.seed, "config": "a long text, " * self.chance.randrange(20_000)})

    def leave(self) -> None:
        """Leave as a killed writer does, or in order; then another one goes on."""
        self.file.close() if self.chance.random() < 0.5 else self.file.release()
        if self.chance.random() < 0.5:
            assert writer.repair(self.path) == ""
            before = self.path.read_bytes()
            assert writer.repair(self.path) == "" and self.path.read_bytes() == before
            assert [each.name for each in self.path.parent.iterdir()] == [self.path.name]
        self.file = writer.resume(self.path, fsync=False)
        assert self.file.generations == self.count
        assert self.file.state["mean"].tobytes() == state(self.count - 1)["mean"].tobytes()
        self.file.begin_session({"host": "there", "start": float(self.count)})
        self.sessions.append((self.count, float(self.count)))

    def compare(self) -> None:
        check(self.path, self.count)
        with Reader(self.path) as opened:
            assert opened.attributes["seed"] == self.seed and not opened.closed
            found = [(session["first_generation"], session["start"]) for session in opened.sessions()]
            assert found == self.sessions
            ends = [first for first, _ in self.sessions[1:]] + [self.count]
            for session, end in zip(opened.sessions(), ends, strict=True):
                assert session["end"] == (end - 1 if end > session["first_generation"] else session["start"])
            series, whole = opened["behavior"], rows("behavior", self.count)
            low, high = (self.chance.randint(-self.count - 2, self.count + 2) for _ in range(2))
            for key in (slice(low, high), slice(high, low, -2), slice(None, None, 3), (slice(low, high), 4, 1), ()):
                np.testing.assert_array_equal(series[key], whole[key])
            for number in {low, high} & set(range(-self.count, self.count)):
                np.testing.assert_array_equal(series[number, 2:5, 0], whole[number, 2:5, 0])
            with pytest.raises(IndexError, match=f"generation {self.count} is not in"):
                series[self.count]
            assert len(list(series)) == len(series) == self.count


@pytest.mark.parametrize("seed", range(4))
def test_whatever_a_writer_does_its_file_says_what_was_committed(seed: int, tmp_path: Path) -> None:
    walk = Walk(tmp_path / "run.h5", chance := random.Random(seed))
    for _ in range(12):
        chance.choice((walk.commit, walk.commit, walk.fold, walk.change, walk.leave))()
        walk.compare()
    walk.file.close()
    assert [each.name for each in tmp_path.iterdir()] == ["run.h5"]
    with Reader(walk.path) as opened:
        assert opened.closed and not opened.cut and opened.folded == walk.count


def test_other_programs_read_a_finished_and_a_killed_file(tmp_path: Path) -> None:
    for closed in (True, False):
        path, variable = made(tmp_path / f"{closed}.h5", 4, 2, closed), []
        before = path.read_bytes()
        with xarray.open_dataset(path, group="generations", engine="h5netcdf") as opened:
            assert opened["behavior"].dims == ("generation", "individual", "behavior_dim")
            assert opened["behavior"].attrs["about"] == "a behaviour"
            assert opened.sizes["generation"] == (4 if closed else 2)

        def note(name: str, item: h5py.HLObject, found: list[str] = variable) -> None:
            kinds = [item.attrs.get_id(each).dtype for each in item.attrs]
            kinds += [item.dtype] if isinstance(item, h5py.Dataset) else []
            texts = [text for text in map(h5py.check_string_dtype, kinds) if text]
            found.extend(name for text in texts if text.length is None)

        with h5py.File(path) as file:
            note("/", file)
            file.visititems(note)
        assert variable == [] and path.read_bytes() == before


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
    file.fold()
    file.close()
    assert steps == [*in_place, *new_journal, *3 * record, *in_place, *new_journal, *in_place]


def test_a_file_does_not_grow_with_folds_that_add_nothing(tmp_path: Path) -> None:
    file, sizes = create(tmp_path / "run.h5"), []
    append(file)
    for _ in range(4):
        file.fold()
        sizes.append(file.path.stat().st_size)
    file.close()
    assert sizes[1] == sizes[-1]


def test_a_large_journal_is_folded_and_a_fold_that_fails_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "FOLD_BYTES", 1)
    file = create(tmp_path / "run.h5")
    with monkeypatch.context() as broken:
        broken.setattr(os, "posix_fallocate", full)
        append(file, 2)
    assert "could not fold the journal" in file.pop_warning() and file.pop_warning() == ""
    append(file)
    with Reader(file.path) as opened:
        assert opened.folded == 3
    file.close()
    check(file.path, 3)


@pytest.mark.parametrize(("fsync", "said"), [(True, r"\. All committed generations are safe"), (False, "$")])
def test_generations_are_called_safe_only_where_they_are(
    fsync: bool, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = create(tmp_path / "run.h5", fsync=fsync)
    monkeypatch.setattr(journal.JournalWriter, "append", full)
    with pytest.raises(RunFileError, match=f"cannot write .*run.h5: No space left on device{said}"):
        append(file)
    file.release()


def test_a_file_that_hdf5_cannot_read_again_is_not_put_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = create(tmp_path / "run.h5")
    append(file, 2)
    before = file.path.read_bytes()
    monkeypatch.setattr(hdf5, "write_final", lambda written, *rest: written.attrs.create("seed", 4))
    for fails in (file.close, lambda: create(tmp_path / "new.h5")):
        with pytest.raises(RunFileError, match="has written a file that it cannot read"):
            fails()
    assert {path.name for path in tmp_path.iterdir()} == {"run.h5", "run.h5.journal"}
    assert file.path.read_bytes() == before
    check(file.path, 2)


@pytest.mark.parametrize("moved", [True, False])
def test_a_file_that_was_replaced_or_moved_under_its_writer_is_left_as_it_is(moved: bool, tmp_path: Path) -> None:
    file, other, new = create(tmp_path / "run.h5"), made(tmp_path / "other.h5", 1).read_bytes(), tmp_path / "moved.h5"
    append(file, 2)
    file.path.rename(new) if moved else file.path.write_bytes(other)
    said = "was removed or moved.* can be resumed" if moved else "now holds another run.* are in run.h5.journal"
    with pytest.raises(RunFileError, match=said):
        file.close()
    assert len(journal.read(file.path).records) == 3
    if moved:
        journal.path_of(file.path).rename(journal.path_of(new))
        writer.resume(new).close()
        check(new, 2)
    assert not file.path.exists() if moved else file.path.read_bytes() == other


def test_a_link_stays_a_link_and_the_mode_stays_the_mode(tmp_path: Path) -> None:
    path, link = made(tmp_path / "real.h5", 2), tmp_path / "link.h5"
    path.chmod(0o600)
    link.symlink_to(path)
    file = writer.resume(link)
    append(file)
    with Reader(link) as opened:
        assert opened.generations == 3
    file.close()
    assert link.is_symlink() and path.stat().st_mode & 0o777 == 0o600
    check(path, 3)


def test_links_and_pipes_in_the_place_of_our_files_are_not_followed(tmp_path: Path) -> None:
    path, victim = made(tmp_path / "run.h5", 4, 2, closed=False), tmp_path / "victim"
    victim.write_text("private")
    for ending in ("folding", "journal.new"):
        Path(f"{path}.{ending}").symlink_to(victim)
    writer.resume(path).close()
    for ending in ("journal", "lock"):
        Path(f"{path}.{ending}").symlink_to(victim)
        with pytest.raises(RunFileError, match="symbolic link"):
            writer.resume(path)
        Path(f"{path}.{ending}").unlink()
    assert victim.read_text() == "private"
    os.mkfifo(f"{path}.journal")
    with pytest.raises(RunFileError, match="not a plain file"):
        Reader(path)


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
    begin(path, overwrite=True).release()
    assert set(seen) == {4, 3, 0}  # with its journal, without it, and replaced
    monkeypatch.undo()
    old, opened_by = made(tmp_path / "old.h5", 4, 3, closed=False), h5py.File

    def overwritten(*words: Any, **named: Any) -> h5py.File:
        monkeypatch.undo()
        os.replace(path, old), os.replace(f"{path}.journal", f"{old}.journal")
        return opened_by(old, **named)

    monkeypatch.setattr(h5py, "File", overwritten)  # after the journal was read
    with Reader(old) as opened:
        assert opened.damage == "" and opened.generations == 0


@pytest.mark.parametrize("kind", [">f8", "|O", "<U4"])
def test_an_array_of_a_type_that_files_do_not_have_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="its array one has an unknown type"):
        Layout([Array("one", (), kind, "about")], {})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"behavior": np.zeros((5, 3))}, r"behavior is float64\(5, 3\); expected <f8\(5, 2\)"),
        ({"valid": np.zeros(5)}, r"valid is float64\(5,\); expected \|u1\(5,\)"),
        ({"clock": "noon"}, "clock is <U4"),
        ({"clock": None}, "has no array clock"),
    ],
)
def test_a_generation_of_other_arrays_than_the_list_is_not_committed(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    file = create(tmp_path / "run.h5")
    with pytest.raises(ValueError, match=said):
        file.append({name: each for name, each in {**row(0), **change}.items() if each is not None}, state(0))
    file.append({**row(0), "more": np.ones(3)}, state(0))  # what is not in the list is not kept
    file.close()
    check(file.path, 1)
