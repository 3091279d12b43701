"""Two Strategies on one noise table, with weights of the program: `python several_loops.py FAULT`; prints digests."""

import gc
import sys
from pathlib import Path

import numpy as np

import ees_mpi

FAULT = sys.argv[1]
GENERATIONS = 4
SETTINGS = {"noise": {"size": 5000, "seed": 9}}
MEANS = np.eye(3)[:2]


def mapped() -> int:
    """Return the noise tables that this process shares with others of the node."""
    return sum("ees-mpi-" in line for line in Path("/proc/self/maps").read_text().splitlines())


loops = [ees_mpi.Strategy(mean, size=8, std=0.1, seed=seed, config=SETTINGS) for seed, mean in enumerate(MEANS)]
ranks = loops[0]._loop.ranks.size
assert mapped() == (ranks > 1), mapped()
for generation in range(GENERATIONS):
    for number, es in enumerate(loops):
        if es.rank == 1 and generation == 2 and FAULT == "leaves" and number == 0:
            sys.exit()
        if es.rank == 1 and generation == 2 and FAULT == "order":
            es = loops[1 - number]
        z = np.concatenate([*es.ask(chunk=3), np.empty((0, 3), np.float32)])
        if number:
            drawn = es.draw()
            noise = es.noise[drawn.offset[:, None] + np.arange(3)]
            z = drawn.means[drawn.parent] + (drawn.sign[:, None] * np.float32(drawn.std)) * noise
            np.testing.assert_array_equal(z, es.ask())
        assert len(z) == len(es.rows)
        behavior = es.gather(np.sin(5 * z[:, :2]) if len(z) else z)
        assert es.gather(es.rows).tolist() == list(range(8))
        fitness = es.gather((z[:, 2] > 0) if len(z) else [])
        weights = np.square(behavior).sum(axis=1) + fitness
        if FAULT == "weights":
            weights += es.rank
        es.tell(weights=weights - weights.mean())
digests = [es.state.digest().hex() for es in loops]
loops[0].close()  # the older one first: the other one goes on
es = loops[1]
es.ask()
es.tell(weights=np.arange(8.0))
digests.append(es.state.digest().hex())
es.close()
del es, loops
gc.collect()
assert mapped() == 0, "the noise table is still there"
sys.stdout.write(" ".join(digests) + "\n")  # at once: MPICH mixes the pieces of ranks
sys.stdout.flush()
