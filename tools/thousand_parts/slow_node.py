"""Generations on hosts of which one is slow: the seconds of each, and the digest of the state after the last."""

import os
import socket
import time

from thousand_parts import sleeping
from thousand_parts.generation import CONFIG

from ees_mpi import config as configs
from ees_mpi.generation.state import first_state
from ees_mpi.ranks import Ranks
from ees_mpi.training import EvolutionJob, commit

GENERATIONS = 8


def measure(world: Ranks) -> dict[str, object]:
    """Return the seconds of generations; the host with the name SLOW sleeps twice as long."""
    if socket.gethostname() == os.environ["SLOW"]:
        sleeping.MEAN *= 2
    config = configs.load(str(CONFIG), ["population.size=400", "task.parameters=1000"])
    job, state, seconds, digest = EvolutionJob.open(config, world), first_state(config), [], b""
    for _ in range(GENERATIONS):
        world.any(False)
        begin = time.monotonic()
        record, state = job.advance(state)
        record, _ = commit(world, None, record, state, 0.0)
        seconds.append(round(time.monotonic() - begin, 3))
        digest = record["state_sha256"].item()
    return {"ranks": world.size, "nodes": world.nodes, "seconds": seconds, "state_sha256": digest.decode()}
