"""A kill at any step of a commit or a fold loses nothing that was committed, and the file can be read at once.

EES_TEST_KILLS=100 tries more steps.
"""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pytest
from support.small_runs import job_of

from ees_mpi import open_run
from ees_mpi.config import Config, load
from ees_mpi.generation.results import with_times
from ees_mpi.generation.state import first_state
from ees_mpi.ranks import Ranks
from ees_mpi.store.fold import repair
from ees_mpi.store.writer import RunWriter

KILLS = int(os.environ.get("EES_TEST_KILLS", "8"))
GENERATIONS = 6
# Of the steps of a run that is folded, closed and resumed: all that reach the disk.
STEPS = ((os, "write"), (os, "fsync"), (os, "replace"), (os, "posix_fallocate"), (shutil, "copyfile"))
INSIDE = ((h5py.Dataset, "resize"), (h5py.File, "close"), (h5py.File, "flush"))


Whole = tuple[list[tuple[Any, Any]], Path, int]  # the arrays and the following state of each generation; steps


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Write a run that nobody kills."""
    config = tiny_config()
    job, state, found = job_of(config), first_state(config), []
    for _ in range(GENERATIONS):
        record, state = job.advance(state)
        found.append((with_times(record, state.digest(), 0.0, Ranks()).arrays, state.arrays()))
    path = tmp_path_factory.mktemp("kills") / "whole.h5"
    with open(os.devnull, "wb") as nobody:
        return found, path, write(path, found, 0, nobody.fileno())


def tiny_config() -> Config:
    return load("interference-maxvar", ["population.size=6", "noise.size=5000", f"run.generations={GENERATIONS}"])


def write(path: Path, generations: list[tuple[Any, Any]], die_at: int, told: int) -> int:
    """Write a run, and die at a step; tell of each commit through a pipe. Return the number of steps."""
    config, steps, plain = tiny_config(), [0], os.write
    writer = RunWriter.create(path, config, first_state(config).arrays())
    writer.begin_session(0, 1, 1, {"numpy": "0"})

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
    try:
        for owner, name, original in originals:
            setattr(owner, name, dying(original))
        for number, (arrays, state) in enumerate(generations):
            writer.commit(number, arrays, state)
            plain(told, b".")
            if number % 2:
                writer.fold()
            if number == 3:
                writer.close()
                writer, _ = RunWriter.resume(path, config)
        writer.close()
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)
    return steps[0]


@pytest.mark.parametrize("kill", range(KILLS))
def test_a_kill_while_committing_or_folding_loses_nothing(kill: int, whole: Whole, tmp_path: Path) -> None:
    (generations, undisturbed, steps), path, (reading, told) = whole, tmp_path / "run.h5", os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            write(path, generations, 1 + kill * steps // KILLS, told)
        finally:  # the child must not go on into pytest
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    os.close(told)
    with open(reading, "rb") as pipe:
        committed = len(pipe.read())
    for step in ("killed", "repaired"):
        with open_run(path) as run, open_run(undisturbed) as other:
            run.check_all()
            assert run.generations in (committed, committed + 1) and "is missing" not in run.cut
            for name in run:
                assert run[name][:].tobytes() == other[name][: run.generations].tobytes(), name
        if step == "killed":
            repair(path)
    assert [each.name for each in tmp_path.iterdir()] == ["run.h5"]
