"""One generation on some ranks: seconds of each phase, processor seconds of a rank, calls and bytes of its gathers.

All ranks are on one machine and share its clock. A phase ends when the last rank ends it, because a rank that is done
waits for the others.
"""

import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from thousand_parts import sleeping

from ees_mpi import config as configs
from ees_mpi.generation.state import first_state
from ees_mpi.ranks import Ranks
from ees_mpi.store.writer import RunWriter
from ees_mpi.training import EvolutionJob, commit

CONFIG = Path(__file__).with_name("sleeping.toml")
GENERATIONS = 3


def processor() -> float:
    """Return the processor seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class CountedGathers:
    """Counts the gathers of a rank, their bytes and their processor seconds."""

    def __init__(self, world: Ranks):
        self.calls = self.bytes = 0
        self.processor, self._depth, self._gather = 0.0, 0, world.allgather
        world.allgather = self.gather  # type: ignore[method-assign]

    def gather(self, *arguments: Any, **named: Any) -> Any:
        """Gather, and count it; a gather of unknown lengths contains another one."""
        before, self._depth = processor(), self._depth + 1
        found = self._gather(*arguments, **named)
        self._depth -= 1
        self.calls, self.bytes = self.calls + 1, self.bytes + found.nbytes
        self.processor += (processor() - before) if not self._depth else 0.0
        return found


def measure(world: Ranks) -> dict[str, float]:
    """Return the measurement of this number of ranks: medians over generations, of ranks the mean or the last one."""
    connected = time.time() - float(os.environ["STARTED"])
    start_cpu = processor()
    config = configs.load(str(CONFIG))
    job, state = EvolutionJob.open(config, world), first_state(config)
    ready = time.time() - float(os.environ["STARTED"])
    opened = world.allgather(np.array([[connected, ready, start_cpu]]), [1] * world.size)
    with tempfile.TemporaryDirectory() as folder:
        writer = RunWriter.create(Path(folder) / "run.h5", config, state.arrays()) if world.is_root else None
        rows = []
        counted = CountedGathers(world)
        for _ in range(GENERATIONS):
            row, state = _generation(job, state, writer, counted)
            rows.append(row)
        if writer:
            writer.close()
    names = (
        "evaluate",
        "gather",
        "update",
        "commit",
        "processor",
        "in_gathers",
        "gathers",
        "bytes",
        "rollout",
        "slowest",
    )
    return {
        "ranks": world.size,
        "connected": float(opened[:, 0].max()),
        "opened": float(opened[:, 1].max()),
        "start_processor": float(opened[:, 2].mean()),
        **dict(zip(names, np.median(rows, axis=0).tolist(), strict=True)),
        "individuals": config.population.size,
    }


def _generation(job: Any, state: Any, writer: Any, counted: CountedGathers) -> tuple[list[float], Any]:
    world = job.ranks
    sleeping.TIMES.clear()
    world.any(False)  # all ranks begin together
    counted.calls = counted.bytes = 0
    counted.processor, begin, used = 0.0, time.monotonic(), processor()
    record, following = job.advance(state)
    laps = np.cumsum([record.seconds[phase] for phase in ("evaluate", "gather", "update")])
    commit(world, writer, record, following, 0.0)
    world.any(False)  # the check for a stop request
    mine = [
        begin,
        *(begin + laps),
        time.monotonic(),
        processor() - used,
        counted.processor,
        sum(sleeping.TIMES),
        max(sleeping.TIMES, default=0.0),
    ]
    calls, volume = counted.calls, counted.bytes
    table = world.allgather(np.array([mine]), [1] * world.size)
    ends = np.concatenate([[table[:, 0].min()], table[:, 1:5].max(axis=0)])
    mean = table[:, 7].sum() / job.config.population.size
    slowest = table[:, 8].max() / mean
    return [*np.diff(ends), *table[:, 5:7].mean(axis=0), calls, volume, mean, slowest], following
