"""One writer at a time, also on file systems without locks."""

import errno
import fcntl
import os
import threading
from pathlib import Path

import pytest

from ees_mpi.errors import RunFileError
from ees_mpi.store import lock
from ees_mpi.store.lock import Lock


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a run file, of which only the lock is there."""
    monkeypatch.setattr(lock, "WAIT_SECONDS", 0.3)
    monkeypatch.setattr(lock, "HEARTBEAT_SECONDS", 0.3)
    return tmp_path / "run.h5"


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.fixture(params=[True, False], ids=["locks", "no locks"])
def locks(request: pytest.FixtureRequest) -> bool:
    """Run a test on a file system with locks, and on one without."""
    if not request.param:
        request.getfixturevalue("no_locks")
    return bool(request.param)


def test_a_second_writer_is_refused_and_told_who_holds_the_file(run: Path, locks: bool) -> None:
    assert lock.is_held(run) is False
    held = Lock(run)
    assert lock.is_held(run) is (True if locks else None)
    with pytest.raises(RunFileError, match=rf"being written by process {os.getpid()} on .*wait for it"):
        Lock(run)
    held.release()
    assert lock.is_held(run) is False
    Lock(run).release()
    assert list(run.parent.iterdir()) == []


def test_a_new_writer_waits_for_a_dying_one(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Lock(run)
    monkeypatch.setattr(lock, "WAIT_SECONDS", 30.0)
    threading.Timer(0.3, held.release).start()
    Lock(run).release()


def test_a_lock_file_that_was_deleted_meanwhile_does_not_make_a_second_writer(run: Path) -> None:
    path, flock, faster = Path(f"{run}.lock"), fcntl.flock, []
    path.touch()
    with pytest.MonkeyPatch.context() as patch:

        def late(file: int, operation: int) -> None:
            patch.undo()
            path.unlink()  # its owner has left
            faster.append(Lock(run))
            flock(file, operation)

        patch.setattr(fcntl, "flock", late)
        with pytest.raises(RunFileError, match=f"being written by process {os.getpid()}"):
            Lock(run)
    faster[0].release()


@pytest.mark.parametrize(
    ("content", "owner"),
    [
        ('{"host": "gone", "pid": 1, "job": "77", "since": "long ago"}', r"process 1 on gone, SLURM job 77"),
        ("", "another process"),  # it may be about to write its name
    ],
)
def test_without_locks_a_writer_without_heartbeat_needs_force(
    content: str, owner: str, run: Path, no_locks: None
) -> None:
    Path(f"{run}.lock").write_text(content)
    with pytest.raises(RunFileError, match=rf"{owner}.*no heartbeat.*--force"):
        Lock(run)
    Lock(run, force=True).release()


def test_a_full_disk_leaves_no_lock_file(run: Path, locks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*words: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(RunFileError, match="No space left"):
        Lock(run)
    assert list(run.parent.iterdir()) == []
    with pytest.raises(RunFileError, match=r"cannot write .*run.h5.lock"):
        Lock(run.parent / "absent" / "run.h5")


@pytest.mark.parametrize(
    ("content", "held"),
    [("", False), ("[1]", False), ('{"host": "node7", "pid": 12}', None)],
)
def test_what_a_killed_process_left_is_not_held(content: str, held: bool | None, run: Path) -> None:
    Path(f"{run}.lock").write_text(content)
    assert lock.is_held(run) is held  # None: the lock of another node may not be seen from here
    Lock(run).release()
