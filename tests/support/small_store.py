"""A small file of the store, without a run: three arrays over generations, and a state."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi.store import writer
from ees_mpi.store.layout import Array
from ees_mpi.store.writer import Writer

ARRAYS = (
    Array("behavior", ("individual", "behavior_dim"), "<f8", "a behaviour"),
    Array("valid", ("individual",), "|u1", "a truth value"),
    Array("digest", (), "|S64", "digest of the state after a generation"),
    Array("clock", (), "<f8", "time of the commit"),
)
SIZES = {"individual": 5, "behavior_dim": 2}


def row(generation: int) -> dict[str, Any]:
    """Return the arrays of a generation."""
    behavior = np.random.default_rng(generation).standard_normal((5, 2))
    digest = hashlib.sha256(str(generation).encode()).hexdigest()
    return {"behavior": behavior, "valid": behavior[:, 0] > 0, "digest": np.array(digest, "S64"), "clock": generation}


def state(generation: int) -> dict[str, Any]:
    """Return the state after a generation; -1: before the first one."""
    mean = np.random.default_rng(1000 + generation).standard_normal((2, 3)).astype(np.float32)
    return {"generation": np.array(generation + 1), "mean": mean, "moments/first": mean / 2}


def create(path: Path, **more: Any) -> Writer:
    """Create a file, and note a session."""
    file = writer.create(path, ARRAYS, SIZES, {"kind": "test", "seed": 3}, state(-1), "digest", "clock", **more)
    file.begin_session({"host": "here", "start": 0.5})
    return file


def append(file: Writer, count: int) -> None:
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
