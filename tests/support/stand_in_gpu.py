"""A custom task that is evaluated in batches, as on a GPU, and the command `ees-mpi` on ranks that see such GPUs.

`python stand_in_gpu.py ARGUMENTS` runs `ees-mpi ARGUMENTS`. EES_TEST_GPUS lists the UUIDs that every rank sees.
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi.arrays import Floats, Singles
from ees_mpi.generation import Batch, Outcome
from ees_mpi.ranks import gpus
from ees_mpi.tasks.interference import pattern
from support.own_tasks import Base

CONFIG = """
base = "interference-maxent"
run = { generations = 5, evaluate_mean_every = 2, fsync = false }
task = { name = "custom", function = "support.stand_in_gpu:StandIn" }
population = { size = 21, antithetic = false, std_decay = 0.5, std_min = 0.125 }
optimizer = { name = "adam", lr = 0.03 }
noise.size = 100
"""


@dataclass(frozen=True)
class StandIn(Base):
    """The interference task with a normaliser, on the CPU or in batches; `log`: a folder with a file per batch."""

    device: str = "auto"
    capacity: int = 1000
    log: str = ""
    stop_at: int = -1  # the individual whose batch asks this rank to stop, once

    parameters: int = 1
    start: float = 1.0
    observation_dim: int = 1
    observation_share: float = 0.5

    def evaluate(self, index: int, *rest: Any) -> Outcome:
        parameters, observation_mean, _, observe = rest
        value = pattern(float(parameters[0]) + 1e-3 * float(observation_mean[0]))
        sums = np.array([1.0, value, value**2]) if observe else None
        return Outcome(index, (value,), value, 1, True, sums)

    def open_batches(
        self, seed: int, noise: Singles, wanted: int, antithetic: bool, say: Callable[[str], None]
    ) -> "Batches":
        return Batches(self, noise)


class Batches:
    """Evaluates a batch one by one."""

    def __init__(self, task: StandIn, noise: Singles):
        self._task, self._noise, self.capacity = task, noise, task.capacity

    def evaluate_batch(self, batch: Batch, observation_mean: Floats, observation_std: Floats) -> list[Outcome]:
        task = self._task
        if task.log:
            rank = os.environ.get("OMPI_COMM_WORLD_RANK", "0")
            with open(Path(task.log) / f"rank{rank}", "a", encoding="utf-8") as file:
                file.write(f"{os.environ['CUDA_VISIBLE_DEVICES']} {' '.join(map(str, batch.index.tolist()))}\n")
        outcomes = []
        for place, index in enumerate(batch.index.tolist()):
            noise = self._noise[batch.offset[place] : batch.offset[place] + 1] * (batch.std * batch.sign[place])
            z = batch.means[batch.parent[place]] + noise.astype(np.float32)
            observe = bool(batch.observe[place])
            outcomes.append(task.evaluate(index, z, observation_mean, observation_std, observe))
        if task.stop_at in batch.index and not (Path(task.log) / "stopped").exists():
            (Path(task.log) / "stopped").touch()
            os.kill(os.getpid(), signal.SIGUSR1)
        return outcomes

    def close(self) -> None:
        pass


def visible() -> list[gpus.Gpu]:
    """Return the GPUs of the environment."""
    uuids = [uuid for uuid in os.environ.get("EES_TEST_GPUS", "").split(",") if uuid]
    return [gpus.Gpu(uuid, "stand-in", 1 << 30, "1.0") for uuid in uuids]


if __name__ == "__main__":
    from ees_mpi.cli.main import main

    gpus.visible_gpus = visible
    main()
