"""The mean of a run as the start of a pyribs emitter: does an archive fill faster from an evolvable mean?

    pip install ribs && python jobs/examples/qd_emitter.py

The network is an arm with three joints: the behaviour is the place of its hand, and straight arms are fitter.
"""

import numpy as np
from ribs.archives import GridArchive
from ribs.emitters import GaussianEmitter
from ribs.schedulers import Scheduler

import ees_mpi


def arm(z):
    """Return where the hands of the arms z [n, 3] are, and how straight the arms are."""
    angle = np.cumsum(z.astype(float), axis=1)
    place = np.stack([np.cos(angle).sum(axis=1), np.sin(angle).sum(axis=1)], axis=1)
    return place, -np.square(z[:, 1:]).sum(axis=1)


first = [0.0, 3.0, 0.0]
with ees_mpi.Strategy(first, objective="maxent", size=100, std=0.3, seed=0) as es:
    for _ in range(50):
        es.tell(arm(es.ask())[0])
    learned = np.array(es.mean, float)
for name, start in {"the first mean": first, "the learned mean": learned}.items():
    archive = GridArchive(solution_dim=3, dims=[20, 20], ranges=[(-3, 3)] * 2, seed=0)
    scheduler = Scheduler(archive, [GaussianEmitter(archive, sigma=0.3, x0=start, batch_size=50, seed=0)])
    for batch in range(10):
        place, fitness = arm(scheduler.ask())
        scheduler.tell(fitness, place)
        if batch in (0, 9):
            print(f"from {name}: coverage {archive.stats.coverage:.3f} after {50 * (batch + 1)} rollouts")
