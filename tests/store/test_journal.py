import os
from pathlib import Path

import numpy as np
import pytest

from ees_mpi.errors import RunFileError
from ees_mpi.outcomes import Arrays
from ees_mpi.store import journal, records
from ees_mpi.store.journal import JournalContents, JournalWriter
from ees_mpi.store.records import Entry

RUN_ID = "0f" * 16


def record(generation: int) -> tuple[Entry, Arrays]:
    state = {"mean": np.full((1, 4), generation, np.float32)}
    digest = np.array(records.state_sha256(state), "S64")
    columns, data = records.flat({"behavior": np.arange(6.0).reshape(3, 2) + generation, "state_sha256": digest})
    return Entry("generation", generation, "ab" * 32, columns, data), state


def written(run: Path, count: int = 3) -> JournalWriter:
    writer = JournalWriter(run, RUN_ID, fsync=True)
    for generation in range(count):
        writer.append(*record(generation))
    return writer


def test_records_come_back_as_they_went_in(tmp_path: Path) -> None:
    written(tmp_path / "run.h5").close()
    contents = journal.read(tmp_path / "run.h5")
    assert contents.run_id == RUN_ID and not contents.damaged
    assert contents.records == [record(generation)[0] for generation in range(3)]
    np.testing.assert_array_equal(contents.records[1].arrays["behavior"], np.arange(6.0).reshape(3, 2) + 1)
    np.testing.assert_array_equal(contents.state["mean"], record(2)[1]["mean"])


def test_a_journal_cut_anywhere_yields_its_whole_records_only(tmp_path: Path) -> None:
    run = tmp_path / "run.h5"
    ends = []
    writer = JournalWriter(run, RUN_ID, fsync=False)
    for generation in range(3):
        writer.append(*record(generation))
        ends.append(writer.size)
    writer.close()
    whole = journal.path_of(run).read_bytes()
    for cut in range(0, len(whole) + 1, 7):
        journal.path_of(run).write_bytes(whole[:cut])
        contents = journal.read(run)
        assert len(contents.records) == sum(end <= cut for end in ends)
        assert not contents.damaged


def test_a_flipped_bit_anywhere_is_damage_and_never_a_short_last_record(tmp_path: Path) -> None:
    run = tmp_path / "run.h5"
    written(run).close()
    sound = journal.path_of(run).read_bytes()
    for place in range(len(sound)):
        raw = bytearray(sound)
        raw[place] ^= 1 << place % 8
        journal.path_of(run).write_bytes(raw)
        contents = journal.read(run)
        assert contents.damaged and len(contents.records) < 3, place


def test_records_of_another_run_in_a_journal_are_damage(tmp_path: Path) -> None:
    run = tmp_path / "run.h5"
    written(run).close()
    other = journal.encode("1e" * 16, *record(3))
    journal.path_of(run).write_bytes(journal.path_of(run).read_bytes() + other)
    contents = journal.read(run)
    assert contents.damaged and len(contents.records) == 3 and contents.unread == len(other)


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
    writer = written(run)
    size = writer.size

    def half(file: int, data: memoryview) -> int:
        monkeypatch.undo()
        os.write(file, bytes(data[: len(data) // 2]))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="No space"):
        writer.append(*record(3))
    assert journal.path_of(run).stat().st_size == writer.size == size
    writer.append(*record(3))
    writer.close()
    assert len(journal.read(run).records) == 4


def test_no_journal_is_no_records(tmp_path: Path) -> None:
    assert journal.read(tmp_path / "run.h5") == JournalContents(missing=True)
    journal.path_of(tmp_path / "run.h5").write_bytes(b"not a journal at all")
    assert journal.read(tmp_path / "run.h5") == JournalContents(damaged=True, unread=20)


def test_a_folder_that_cannot_be_synced_costs_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(journal, "sync_folder", broken)
    run = tmp_path / "run.h5"
    written(run).close()
    written(run, count=2).close()  # the new journal of a fold
    assert len(journal.read(run).records) == 2
