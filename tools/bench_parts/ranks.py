"""The work of one rank in a generation of ant-maxent with P ranks, rollouts and messages left out.

One process does what the last of P ranks does: it puts N = 10,000 outcomes in order, computes its share of the update
and all that every rank computes, and lists what all ranks send. So nothing may grow with P. This is a simulation:
whole generations are measured by jobs/scaling.py.

Options: --ranks 2 160 10000, --repeat 5.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi import config as configs
from ees_mpi.commands.plan import TABLE, Share
from ees_mpi.noise import NoiseTable
from ees_mpi.ranks import Ranks, gpus
from ees_mpi.ranks.serial import OneOfMany

PER_NODE, GPUS = 100, 4  # ranks and GPUs of a node


class Gathering(OneOfMany):
    """A rank whose rows are those of all ranks, so that they can be put in order."""

    def each(self, value: Any) -> NDArray[Any]:
        return np.diff(self.cuts(value))


def seen(ranks: int) -> list[list[str]]:
    """Return the GPUs that each rank sees: all those of its node."""
    return [[f"GPU-{rank // PER_NODE}-{gpu}" for gpu in range(GPUS)] for rank in range(ranks)]


def cpu_seconds(part: Callable[[], Any]) -> float:
    """Return the time of a core that a part takes; other programs may keep it waiting for longer."""
    start = time.process_time()
    part()
    return time.process_time() - start


def main(words: list[str]) -> None:
    """Print the milliseconds of a core for each part, the shortest of several times."""
    parser = argparse.ArgumentParser(prog="tools/bench.py ranks")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 16, 160, 1000, 10_000])
    parser.add_argument("--repeat", type=int, default=5)
    chosen = parser.parse_args(words)
    config = configs.load("ant-maxent")
    share = Share(config, NoiseTable(config.noise_seed, TABLE, Ranks()))
    size = config.population.size
    index = np.random.default_rng(0).permutation(size)
    print("ranks    gather   update     GPUs: milliseconds of a core, on the last rank")
    for ranks in chosen.ranks:
        parts = (
            partial(Gathering(ranks).allgather_by_index, index, np.zeros((size, 10)), size),
            partial(share.update, OneOfMany(ranks)),
            partial(gpus.drivers, seen(ranks)),
        )
        taken = [1e3 * min(cpu_seconds(part) for _ in range(chosen.repeat)) for part in parts]
        print(f"{ranks:6} {taken[0]:8.2f} {taken[1]:8.2f} {taken[2]:8.2f}")
