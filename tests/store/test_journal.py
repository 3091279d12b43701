import os
from pathlib import Path

import numpy as np
import pytest

from ees_mpi.store import journal
from ees_mpi.store.journal import Contents, JournalWriter

RUN_ID = "0f" * 16


def record(generation: int) -> dict[str, object]:
    return {
        "kind": "generation",
        "generation": generation,
        "arrays": {"behavior": np.arange(6.0).reshape(3, 2) + generation, "state_sha256": np.array("ab", "S64")},
        "state": {"mean": np.full((1, 4), generation, np.float32)},
    }


def written(run: Path, count: int = 3) -> JournalWriter:
    writer = JournalWriter(run, RUN_ID, fsync=True)
    for generation in range(count):
        writer.append(record(generation))
    return writer


def test_records_come_back_as_they_went_in(tmp_path: Path) -> None:
    written(tmp_path / "run.h5").close()
    contents = journal.read(tmp_path / "run.h5")
    records = contents.records
    assert contents.run_id == RUN_ID and [each["generation"] for each in records] == [0, 1, 2]
    assert not contents.damaged
    np.testing.assert_array_equal(records[1]["arrays"]["behavior"], np.arange(6.0).reshape(3, 2) + 1)
    assert records[1]["arrays"]["state_sha256"] == b"ab"
    assert ["state" in each for each in records] == [False, False, True]


def test_a_journal_cut_anywhere_yields_its_whole_records_only(tmp_path: Path) -> None:
    run = tmp_path / "run.h5"
    ends = []
    writer = JournalWriter(run, RUN_ID, fsync=False)
    for generation in range(3):
        writer.append(record(generation))
        ends.append(writer.size)
    writer.close()
    whole = journal.path_of(run).read_bytes()
    for cut in range(0, len(whole) + 1, 7):
        journal.path_of(run).write_bytes(whole[:cut])
        contents = journal.read(run)
        assert len(contents.records) == sum(end <= cut for end in ends)
        assert not contents.damaged or cut < len(journal.MAGIC)


@pytest.mark.parametrize(("place", "whole", "damaged"), [(-20, 2, False), (200, 0, True), (30, 0, False)])
def test_a_flipped_bit_ends_the_journal_and_is_told_where_records_follow(
    place: int, whole: int, damaged: bool, tmp_path: Path
) -> None:
    run = tmp_path / "run.h5"
    written(run).close()
    raw = bytearray(journal.path_of(run).read_bytes())
    raw[place] ^= 0x40
    journal.path_of(run).write_bytes(raw)
    contents = journal.read(run)
    assert len(contents.records) == whole
    assert contents.damaged == damaged or place == 30


def test_a_write_that_fails_half_way_leaves_the_journal_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run.h5"
    writer = written(run)
    size = writer.size

    def half(file: int, data: memoryview) -> int:
        monkeypatch.undo()
        os.write(file, bytes(data[: len(data) // 2]))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="No space"):
        writer.append(record(3))
    assert journal.path_of(run).stat().st_size == writer.size == size
    writer.append(record(3))
    writer.close()
    assert len(journal.read(run).records) == 4


def test_no_journal_is_no_records(tmp_path: Path) -> None:
    assert journal.read(tmp_path / "run.h5") == Contents()
    journal.path_of(tmp_path / "run.h5").write_bytes(b"not a journal at all")
    assert journal.read(tmp_path / "run.h5") == Contents(damaged=True)
