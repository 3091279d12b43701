"""A kill or an error at any step, and a full disk, lose nothing that was committed.

More is tried with EES_TEST_KILLS=600 (steps at which a writer is killed or fails) and EES_TEST_DISKS=20 (sizes of a
disk). `tools/chaos.py` kills at random times.
"""

import errno
import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import pytest
from support.small_store import append, begin, check, create, in_a_process

from ees_mpi.errors import RunFileError
from ees_mpi.store import writer
from ees_mpi.store.reader import Reader

KILLS = int(os.environ.get("EES_TEST_KILLS", "8"))
DISKS = int(os.environ.get("EES_TEST_DISKS", "5"))
# All that reaches the disk, and what HDF5 does in between.
STEPS = ((os, "write"), (os, "fsync"), (os, "replace"), (os, "posix_fallocate"), (shutil, "copyfile"))
INSIDE = ((h5py.Dataset, "resize"), (h5py.Dataset, "__setitem__"), (h5py.File, "close"), (h5py.Group, "create_group"))
FULL = os.strerror(errno.ENOSPC)
WRITE = os.write


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail() -> None:
    raise OSError(errno.ENOSPC, FULL)


@contextmanager
def broken(at: int, action: Callable[[], None]) -> Iterator["itertools.count[int]"]:
    """Do an action instead of a step, of which the first is 1; yield the count of the steps."""
    steps = itertools.count()

    def breaking(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(*words: Any, **named: Any) -> Any:
            if next(steps) == at - 1:
                if name == "write":  # half of a record
                    WRITE(words[0], bytes(words[1])[: len(words[1]) // 2])
                if name == "close":
                    original(*words)
                action()
            return original(*words, **named)

        return step

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in (*STEPS, *INSIDE):
            patch.setattr(owner, name, breaking(name, getattr(owner, name)))
        yield steps


def patiently(action: Callable[..., Any], *words: Any, again: Callable[[], Any] | None = None) -> Any:
    """Do an action; if the disk is full, do it again, or do another one."""
    try:
        return action(*words)
    except OSError as error:
        assert FULL in str(error)
        return again() if again else action(*words)


def write(path: Path, tell: Callable[[], object] = int) -> None:
    """Write six generations in all the ways in which a writer does; `tell` is called after each commit."""
    file = patiently(begin, path)
    patiently(file.begin_session, {"host": "here"})
    for number in range(6):
        patiently(append, file)
        tell()
        if number % 2:
            patiently(file.fold)
        if number == 3:
            patiently(file.close, again=partial(writer.repair, path))
            file = patiently(writer.resume, path)
            patiently(file.begin_session, {"host": "there"})
    patiently(file.close, again=partial(writer.repair, path))


@pytest.fixture
def steps(tmp_path: Path) -> list[int]:
    """Return some steps of the writer, evenly over all of them."""
    with broken(0, die) as counted:
        write(tmp_path / "whole.h5")
    count = next(counted)
    assert count > 100
    return sorted({1 + kill * count // KILLS for kill in range(KILLS)})


def killed(path: Path, step: int) -> int:
    """Write in a process that dies at a step; return how many commits it told."""

    def write_until(tell: Callable[[bytes], object]) -> None:
        with broken(step, die):
            write(path, lambda: tell(b"."))

    ended, told = in_a_process(write_until)
    assert ended == -signal.SIGKILL, told
    return len(told)


def check_recovery(path: Path, committed: int) -> None:
    """Check what a killed writer left behind, then repair it and go on."""
    if not path.exists():
        assert committed == 0
        create(path).close()
    with Reader(path) as file:
        count = file.generations
    assert committed <= count <= committed + 1
    check(path, count)
    assert "damaged" not in writer.repair(path)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    file = writer.resume(path)
    append(file)
    file.close()
    check(path, count + 1)


def test_a_kill_at_any_step_loses_nothing_that_was_committed(steps: list[int], tmp_path: Path) -> None:
    for step in steps:
        (folder := tmp_path / f"{step}").mkdir()
        check_recovery(folder / "run.h5", killed(folder / "run.h5", step))


def test_an_error_at_any_step_costs_another_try_only(steps: list[int], tmp_path: Path) -> None:
    for step in steps:
        (folder := tmp_path / f"{step}").mkdir()
        with broken(step, fail):
            write(folder / "run.h5")
        assert [each.name for each in folder.iterdir()] == ["run.h5"], step
        check(folder / "run.h5", 6)


@pytest.mark.parametrize("level", range(DISKS))
def test_a_full_disk_loses_nothing_that_was_committed(
    level: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "FOLD_BYTES", 30_000)
    (disk := tmp_path / "disk").mkdir()
    kilobytes = int(16 * 40 ** (level / (DISKS - 1)))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    path, file = disk / "run.h5", None
    try:
        with pytest.raises(RunFileError, match=FULL):
            file = create(path, fsync=False)
            while file.generations < 2000:
                append(file)
            file.close()
        if committed := file.generations if file else 0:
            check(path, committed)
            with Reader(path) as opened:
                assert not opened.cut
        subprocess.run(["mount", "-o", "remount,size=100m", str(disk)], check=True)
        if file is None or not Path(f"{path}.lock").exists():
            file = writer.resume(path) if committed else create(path)
        append(file, 2)  # also the same writer goes on
        file.close()
        check(path, committed + 2)
        assert [each.name for each in disk.iterdir()] == ["run.h5"]
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
