"""A kill at any step of a commit, a fold, a close or a resume loses nothing that was committed.

EES_TEST_KILLS=1000 tries every step.
"""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from support.small_store import append, create, row, state

from ees_mpi.store import writer
from ees_mpi.store.reader import Reader

KILLS = int(os.environ.get("EES_TEST_KILLS", "16"))
# All that reaches the disk, and what HDF5 does in between.
STEPS = ((os, "write"), (os, "fsync"), (os, "replace"), (os, "posix_fallocate"), (shutil, "copyfile"))
INSIDE = ((h5py.Dataset, "resize"), (h5py.Dataset, "__setitem__"), (h5py.File, "close"), (h5py.Group, "create_group"))


def write(path: Path, die_at: int, told: int) -> int:
    """Write a file, and die at a step; tell of each commit through a pipe. Return the number of steps."""
    steps, plain = [0], os.write

    def dying(original: Callable[..., Any]) -> Callable[..., Any]:
        def step(*words: Any, **named: Any) -> Any:
            steps[0] += 1
            if steps[0] == die_at:
                if original is plain:
                    plain(words[0], bytes(words[1])[: len(words[1]) // 2])  # half of a record
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*words, **named)

        return step

    originals = [(owner, name, getattr(owner, name)) for owner, name in (*STEPS, *INSIDE)]
    file = create(path)
    try:
        for owner, name, original in originals:
            setattr(owner, name, dying(original))
        for number in range(6):
            append(file, 1)
            plain(told, b".")
            if number % 2:
                file.fold()
            if number == 3:
                file.close()
                file = writer.resume(path)
                file.begin_session({"host": "again"})
        file.close()
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)
    return steps[0]


def killed(path: Path, die_at: int) -> int:
    """Write a file in a process that dies at a step; return how many commits it told."""
    reading, told = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            write(path, die_at, told)
        finally:  # the child must not go on into pytest
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    os.close(told)
    with open(reading, "rb") as pipe:
        return len(pipe.read())


def faults(path: Path, committed: int) -> list[str]:
    """Return what a file has lost or got wrong after its writer was killed, before and after `repair`."""
    found = []
    for step in ("killed", "repaired"):
        with Reader(path) as file:
            file.check_all()
            if file.generations not in (committed, committed + 1) or "is missing" in file.cut:
                found.append(f"{step}: {file.generations} generations, {committed} told")
            for name in file:
                expected = np.array([row(number)[name] for number in range(file.generations)]).astype(file[name].dtype)
                if file[name][:].tobytes() != expected.tobytes():
                    found.append(f"{step}: {name}")
            if file.state_arrays()["mean"].tobytes() != state(file.generations - 1)["mean"].tobytes():
                found.append(f"{step}: state")
        if step == "killed":
            writer.repair(path)
    left = [each.name for each in path.parent.iterdir()]
    return found + ([f"left: {left}"] if left != [path.name] else [])


def test_a_kill_at_any_step_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    with open(os.devnull, "wb") as nobody:
        steps = write(tmp_path / "whole.h5", 0, nobody.fileno())
    assert steps > 100
    chosen = sorted({1 + kill * steps // KILLS for kill in range(KILLS)})
    for step in chosen:
        folder = tmp_path / f"{step}"
        folder.mkdir()
        committed = killed(folder / "run.h5", step)
        assert faults(folder / "run.h5", committed) == [], step
