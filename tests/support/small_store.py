"""A small file of the store, without a run: an array of each type over generations, and a state."""

import functools
import hashlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi.store import writer
from ees_mpi.store.layout import Array
from ees_mpi.store.reader import Reader
from ees_mpi.store.writer import Writer

ARRAYS = (
    Array("behavior", ("individual", "behavior_dim"), "<f8", "a behaviour"),
    Array("mean", ("behavior_dim",), "<f4", "a mean"),
    Array("offset", ("individual",), "<i8", "a place"),
    Array("parent", ("individual",), "<i4", "a number"),
    Array("valid", ("individual",), "|u1", "a truth value"),
    Array("sign", ("individual",), "|i1", "a sign"),
    Array("digest", (), "|S64", "digest of the state after a generation"),
    Array("clock", (), "<f8", "time of the commit"),
)
SIZES = {"individual": 5, "behavior_dim": 2}
CHUNK = 16  # generations of a chunk, which HDF5 refuses as a whole


@functools.cache
def row(generation: int) -> dict[str, Any]:
    """Return the arrays of a generation."""
    behavior = np.random.default_rng(generation).standard_normal((5, 2))
    numbers = (behavior[:, 0] * 1e4).astype("<i4")
    return {
        "behavior": behavior,
        "mean": behavior[0].astype("<f4"),
        "offset": numbers * 10**9,
        "parent": numbers,
        "valid": behavior[:, 0] > 0,
        "sign": np.sign(numbers).astype("|i1"),
        "digest": np.array(hashlib.sha256(str(generation).encode()).hexdigest(), "S64"),
        "clock": float(generation),
    }


@functools.cache
def state(generation: int) -> dict[str, Any]:
    """Return the state after a generation; -1: before the first one."""
    mean = np.random.default_rng(1000 + generation).standard_normal((2, 3)).astype(np.float32)
    return {"generation": np.array(generation + 1), "mean": mean, "moments/first": mean / 2}


@functools.cache
def rows(name: str, count: int) -> Any:
    """Return an array over the first generations, as it should be in a file."""
    (kind,) = (np.dtype((each.type, tuple(SIZES[axis] for axis in each.axes))) for each in ARRAYS if each.name == name)
    return np.array([row(generation)[name] for generation in range(count)], kind.base).reshape(count, *kind.shape)


def begin(path: Path, **more: Any) -> Writer:
    """Create a file."""
    return writer.create(path, ARRAYS, SIZES, {"kind": "test", "seed": 3}, state(-1), "digest", "clock", **more)


def create(path: Path, **more: Any) -> Writer:
    """Create a file, and note a session."""
    file = begin(path, **more)
    file.begin_session({"host": "here", "start": 0.5})
    return file


def append(file: Writer, count: int = 1) -> None:
    """Commit some generations."""
    for _ in range(count):
        file.append(row(file.generations), state(file.generations))


def made(path: Path, count: int, fold_at: int = 0, closed: bool = True) -> Path:
    """Make a file of some generations, folded after `fold_at` of them; not `closed`: as a killed writer leaves it."""
    file = create(path, fsync=False)
    append(file, fold_at)
    if fold_at:
        file.fold()
    append(file, count - fold_at)
    file.close() if closed else file.release()
    return path


def check(path: Path, count: int) -> None:
    """Check that a file has the first generations and the state after them, and that all of it is sound."""
    with Reader(path) as file:
        file.check_all()
        assert file.generations == count and not file.damage
        assert count == 0 or "is missing" not in file.cut  # killed before the first journal
        for name in file:
            assert file[name].dtype == rows(name, 1).dtype and file[name][:].tobytes() == rows(name, count).tobytes()
        found, expected = file.state_arrays(), state(count - 1)
        assert {name: array.tobytes() for name, array in found.items()} == {
            name: array.tobytes() for name, array in expected.items()
        }


def in_a_process(action: Callable[[Callable[[bytes], object]], object]) -> tuple[int, str]:
    """Do an action in a process, which may die or hang; return how it ended, and what the action has told."""
    reading, telling = os.pipe()
    tell = functools.partial(os.write, telling)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        try:
            action(tell)
            os._exit(0)
        except BaseException as error:
            tell(repr(error).encode())
        finally:  # the child must not go on into pytest
            os._exit(1)
    os.close(telling)
    with open(reading, "rb") as pipe:
        said = pipe.read().decode()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said
