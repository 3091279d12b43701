import errno
import fcntl
import os
import threading
from pathlib import Path

import pytest

from ees_mpi.errors import RunFileError
from ees_mpi.store import lock
from ees_mpi.store.lock import Lock


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "WAIT_SECONDS", 0.3)
    monkeypatch.setattr(lock, "HEARTBEAT_SECONDS", 0.3)


def test_a_second_writer_is_refused_and_told_who_holds_the_file(tmp_path: Path) -> None:
    held = Lock(tmp_path / "run.h5")
    with pytest.raises(RunFileError, match=rf"being written by process {os.getpid()} on "):
        Lock(tmp_path / "run.h5")
    held.release()
    Lock(tmp_path / "run.h5").release()
    assert list(tmp_path.iterdir()) == []


def test_a_new_writer_waits_for_a_dying_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "WAIT_SECONDS", 30.0)
    held = Lock(tmp_path / "run.h5")
    threading.Timer(0.3, held.release).start()
    Lock(tmp_path / "run.h5").release()


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)


def test_without_locks_a_living_writer_is_seen_by_its_heartbeat(tmp_path: Path, no_locks: None) -> None:
    held = Lock(tmp_path / "run.h5")
    with pytest.raises(RunFileError, match=r"being written by process.*wait for it"):
        Lock(tmp_path / "run.h5")
    held.release()


def test_without_locks_a_dead_writer_needs_force(tmp_path: Path, no_locks: None) -> None:
    (tmp_path / "run.h5.lock").write_text('{"host": "gone", "pid": 1, "job": "77", "since": "long ago"}')
    with pytest.raises(RunFileError, match=r"SLURM job 77.*no heartbeat.*--force"):
        Lock(tmp_path / "run.h5")
    Lock(tmp_path / "run.h5", force=True).release()


def test_without_locks_an_empty_lock_file_counts_as_held(tmp_path: Path, no_locks: None) -> None:
    """Another process may have created it, and may be about to write its name."""
    (tmp_path / "run.h5.lock").touch()
    with pytest.raises(RunFileError, match=r"another process.*no heartbeat.*--force"):
        Lock(tmp_path / "run.h5")
    Lock(tmp_path / "run.h5", force=True).release()


@pytest.mark.parametrize("locks", [True, False])
def test_a_full_disk_leaves_no_lock_file(locks: bool, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    def full(*words: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if not locks:
        request.getfixturevalue("no_locks")
    request.getfixturevalue("monkeypatch").setattr(os, "pwrite", full)
    with pytest.raises(RunFileError, match="No space left"):
        Lock(tmp_path / "run.h5")
    assert list(tmp_path.iterdir()) == []


def test_a_lock_is_held_until_it_is_released(tmp_path: Path) -> None:
    run = tmp_path / "run.h5"
    assert lock.is_held(run) is False
    held = Lock(run)
    assert lock.is_held(run) is True
    held.release()
    (tmp_path / "run.h5.lock").write_text("")  # of a killed process
    assert lock.is_held(run) is False
    (tmp_path / "run.h5.lock").write_text('{"host": "node7", "pid": 12}')
    assert lock.is_held(run) is None  # its lock may not be seen from here


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match=r"cannot write .*run.h5.lock"):
        Lock(tmp_path / "absent" / "run.h5")


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000, "[1]", '{"pid": 1}', None])
def test_a_damaged_lock_file_names_nobody(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "run.h5.lock"
    path.write_text(content) if content is not None else os.mkfifo(path)
    assert lock.read_owner(path) == {}
