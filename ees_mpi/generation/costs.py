"""The costs of a generation, measured on this machine: what a method tells `ees-mpi plan`."""

import math
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ees_mpi.config import Config
from ees_mpi.generation.state import State
from ees_mpi.store import layout


@dataclass(frozen=True)
class Costs:
    """Seconds and bytes measured on this machine, by one process. A row is an individual, or a task of MAML."""

    rollout: float  # seconds of the rollouts of one row
    split: float  # seconds of the part of an update that the ranks share
    fixed: float  # seconds of the part that every rank computes
    commit: float  # seconds
    resident: int  # bytes of a rank after its imports, with its environment
    working: Callable[[int], int]  # bytes of an update on a rank, from its number of rows
    table: int  # bytes of the noise table of a node
    timed: str  # the timed parts, for the output
    per_row: float = 0.0  # seconds of the part of an update that a rank computes for each of its rows
    gathered: int = 0  # bytes that every rank receives in addition to the outcomes
    gpus: int = 0  # of this machine, if GPUs evaluate; then `rollout` is a share of a whole batch


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of an action, and its result."""
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def time_commit(config: Config, state: State) -> float:
    """Return the seconds to write a generation to the disk of this folder."""
    size = row_bytes(config) + sum(array.nbytes for array in state.arrays().values())
    with tempfile.TemporaryFile(dir=".") as file:
        start = time.perf_counter()
        file.write(bytes(size))
        file.flush()
        os.fsync(file.fileno())
        return time.perf_counter() - start


def resident_bytes() -> int:
    """Return the bytes of private memory of this process."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def row_bytes(config: Config) -> int:
    """Return the bytes of a generation in the run file."""
    sizes, fields = layout.axis_sizes(config), layout.present(config).values()
    return sum(math.prod(sizes[axis] for axis in field.axes) * np.dtype(field.dtype).itemsize for field in fields)


def seconds(value: float) -> str:
    """Return a time with its unit."""
    return f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"
