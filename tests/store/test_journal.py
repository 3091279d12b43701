"""The journal: what is cut off never happened, and every other fault is damage."""

import os
from pathlib import Path

import pytest
from support import small_store

from ees_mpi.errors import RunFileError
from ees_mpi.store import journal
from ees_mpi.store.journal import Journal, JournalWriter, Record
from ees_mpi.store.layout import Layout

RUN_ID = "0f" * 16
LAYOUT = Layout(small_store.ARRAYS, small_store.SIZES)


def record(number: int) -> Record:
    row = LAYOUT.pack(small_store.row(number)).tobytes()
    return Record(number, "generation", f"{number}", f"{number + 1}", row=row, state=small_store.state(number))


def written(run: Path, count: int = 3) -> JournalWriter:
    file = JournalWriter(run, RUN_ID, fsync=True)
    for number in range(count):
        file.append(record(number))
    return file


def same(one: Record, other: Record) -> bool:
    return journal.encode(one) == journal.encode(other)


def test_records_come_back_as_they_went_in(tmp_path: Path) -> None:
    file = written(tmp_path / "run.h5")
    noted = Record(3, "session", "3", "3", {"host": "here ä", "ranks": 4})
    file.append(noted)
    for contents in (file.contents(), journal.read(tmp_path / "run.h5")):
        assert contents.run_id == RUN_ID and not contents.damaged and not contents.cut
        assert len(contents.records) == 4 and all(map(same, contents.records, [*map(record, range(3)), noted]))
    file.close()


def test_a_journal_cut_anywhere_yields_its_whole_records_only(tmp_path: Path) -> None:
    run, ends = tmp_path / "run.h5", []
    file = written(run, 0)
    for number in range(3):
        file.append(record(number))
        ends.append(file.size)
    file.close()
    whole = journal.path_of(run).read_bytes()
    for cut in range(len(whole) + 1):
        contents = journal.parse(whole[:cut])
        assert len(contents.records) == sum(end <= cut for end in ends)
        assert not contents.damaged and contents.cut == (cut not in (journal.START, *ends)), cut


def test_a_flipped_bit_anywhere_is_damage_and_never_a_short_last_record(tmp_path: Path) -> None:
    run = tmp_path / "run.h5"
    written(run).close()
    sound = journal.path_of(run).read_bytes()
    for place in (*range(len(journal.MAGIC)), *range(journal.START, len(sound))):
        raw = bytearray(sound)
        raw[place] ^= 1 << place % 8
        contents = journal.parse(bytes(raw))
        assert contents.damaged and len(contents.records) < 3, place


def test_a_journal_that_is_a_link_or_no_plain_file_is_refused(tmp_path: Path) -> None:
    run, elsewhere = tmp_path / "run.h5", tmp_path / "elsewhere"
    elsewhere.write_text("private")
    journal.path_of(run).symlink_to(elsewhere)
    with pytest.raises(RunFileError, match="symbolic link"):
        journal.read(run)
    journal.path_of(run).unlink()
    os.mkfifo(journal.path_of(run))
    with pytest.raises(RunFileError, match="not a plain file"):
        journal.read(run)


def test_a_write_that_fails_leaves_the_journal_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run.h5"
    file = written(run)
    size = file.size

    def half(number: int, data: memoryview) -> int:
        monkeypatch.undo()
        os.write(number, bytes(data[: len(data) // 2]))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="No space"):
        file.append(record(3))
    assert journal.path_of(run).stat().st_size == file.size == size
    file.append(record(3))
    file.close()
    assert len(journal.read(run).records) == 4


def test_no_journal_is_no_records(tmp_path: Path) -> None:
    assert journal.read(tmp_path / "run.h5") == Journal(missing=True)
    assert journal.parse(b"not a journal at all") == Journal(damaged=True, unread=20)


def test_a_folder_that_cannot_be_synced_costs_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(journal, "sync_folder", broken)
    run = tmp_path / "run.h5"
    written(run).close()
    written(run, count=2).close()  # the new journal of a fold
    assert len(journal.read(run).records) == 2
