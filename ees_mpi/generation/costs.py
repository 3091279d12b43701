"""The seconds and bytes of a generation: the parts that are measured on this machine, and a model of many ranks.

    evaluate   ceil(N / P) rounds of rollouts, whose time is measured while all cores of this machine work
    gather     G (m + latency ceil(log2 nodes)) + b bytes + bytes / bandwidth, for G gathers
    update     fixed + each ceil(N / P) + split / min(P, N / 16)
    commit     rank 0 alone: the same for any number of ranks

m and b were measured on up to 256 ranks of one machine, latency and bandwidth are assumed: `docs scaling`.
"""

import math
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ees_mpi import config as configs
from ees_mpi.config import Config
from ees_mpi.density import ROWS
from ees_mpi.generation.state import State
from ees_mpi.outcomes import Floats
from ees_mpi.ranks.slices import Slices
from ees_mpi.store import layout

GATHERS = 12  # in a generation of MaxEnt with observations
MESSAGE = 460e-6  # seconds of a processor for each gather, on every rank
BYTE = 2e-9  # seconds of a processor for each byte that a rank receives
LATENCY = 30e-6  # seconds of a message between nodes; assumed
BANDWIDTH = 1e9  # bytes per second into a node; assumed
DEALT = 20  # generations until the slices of the nodes follow their speeds


@dataclass(frozen=True)
class Costs:
    """Seconds and bytes measured on this machine. A row is an individual, or a task of MAML."""

    rollout: float  # seconds of the rollouts of one row, while all cores work
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
    spread: tuple[float, float] = (1.0, 1.0)  # rollouts of the fastest and of the slowest core, over `rollout`


class Phases(NamedTuple):
    """The seconds of a generation on some number of ranks, by phase."""

    evaluate: float
    gather: float
    update: float
    commit: float

    @property
    def generation(self) -> float:
        """Seconds of a generation."""
        return sum(self)


def predict(
    costs: Costs, individuals: int, received: int, ranks: int, nodes: int = 1, slow_node: float = 1.0
) -> Phases:
    """Return the seconds of a generation.

    received: bytes that every rank receives; slow_node: how many times as long one node takes for the same work
    """
    workers = nodes * costs.gpus or ranks
    rounds = -(-individuals // workers)
    evaluate = costs.rollout * (rounds if slow_node == 1 else _rounds(individuals, workers, nodes, slow_node))
    waits = (MESSAGE if ranks > 1 else 0.0) + LATENCY * math.ceil(math.log2(nodes))
    gather = GATHERS * waits + (BYTE * received if ranks > 1 else 0.0) + (received / BANDWIDTH if nodes > 1 else 0.0)
    split = costs.split / min(ranks, max(individuals // ROWS, 1))
    return Phases(evaluate, gather, costs.fixed + rounds * costs.per_row + split, costs.commit)


def _rounds(individuals: int, workers: int, nodes: int, slow_node: float) -> float:
    """Return the rounds of rollouts on equal nodes, one of them slow, dealt by the rule of the program."""
    ranks = np.array([workers * (node + 1) // nodes - workers * node // nodes for node in range(nodes)])
    speed = np.ones(nodes)
    speed[0] = 1 / slow_node
    slices, rounds = Slices(ranks), np.zeros(DEALT)
    for generation in range(DEALT):
        taken = np.ceil(np.diff(slices.cut(individuals)) / ranks) / speed
        slices.balance(taken)
        rounds[generation] = taken.max()
    return float(rounds[DEALT // 2 :].mean())


Measure = Callable[[Config, Callable[[], Any]], Sequence[float]]
_begin: list[threading.Barrier] = []  # of a process of `on_all_cores`


def on_all_cores(config: Config, measure: Measure) -> Floats:
    """Return the seconds [cores, ...] that `measure(config, ready)` returns in one process per core at the same time.

    It calls `ready` when it is warm, and goes on when all processes are.
    """
    cores = len(os.sched_getaffinity(0))
    context = multiprocessing.get_context("spawn")  # libraries with threads do not survive a fork
    with ProcessPoolExecutor(cores, context, initializer=_prepare, initargs=(context.Barrier(cores),)) as pool:
        running = [pool.submit(_measured, config.to_toml(), measure) for _ in range(cores)]
        errors = [error for error in (each.exception() for each in running) if error]
    if errors:
        raise next((error for error in errors if not isinstance(error, threading.BrokenBarrierError)), errors[0])
    return np.array([each.result() for each in running])


def _prepare(begin: threading.Barrier) -> None:
    _begin.append(begin)


def _measured(text: str, measure: Measure) -> Sequence[float]:
    try:
        return measure(configs.parse(text, trusted=True), _begin[0].wait)
    except Exception:
        _begin[0].abort()  # nobody else waits for this process
        raise


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
