"""All offspring of a run in a GridArchive of pyribs, with QD score: how much of the behaviour space they cover.

    pip install ribs && python jobs/examples/qd_archive.py [RUN.h5]

Without a run file, an arm with three joints is trained: the behaviour is the place of its hand, and straight arms are
fitter.
"""

import sys

import numpy as np
from ribs.archives import GridArchive

import ees_mpi


def arm(z):
    """Return where the hands of the arms z [n, 3] are, and how straight the arms are."""
    angle = np.cumsum(z.astype(float), axis=1)
    place = np.stack([np.cos(angle).sum(axis=1), np.sin(angle).sum(axis=1)], axis=1)
    return place, -np.square(z[:, 1:]).sum(axis=1)


def trained(out="arm.h5"):
    """Return a short run of MaxEnt."""
    with ees_mpi.Strategy([0.0, 3.0, 0.0], "maxent", size=100, std=0.3, record=out, overwrite=True) as es:
        for _ in range(20):
            es.tell(*arm(es.ask()))
    return ees_mpi.open_run(out)


with ees_mpi.open_run(sys.argv[1]) if len(sys.argv) > 1 else trained() as run:
    worst = float(run["fitness"][:].min())
    limit = float(np.abs(run["behavior"][:]).max())
    archive = GridArchive(
        solution_dim=run["mean"].shape[2],
        dims=[50] * run["behavior"].shape[2],
        ranges=[(-limit, limit)] * run["behavior"].shape[2],
        qd_score_offset=worst,  # so that every cell adds a number above zero
    )
    for generation in range(run.generations):
        valid = np.flatnonzero(run["valid"][generation])
        solutions = [run.individual(generation, int(index)) for index in valid]
        archive.add(solutions, run["fitness"][generation][valid], run["behavior"][generation][valid])
        if generation % 10 == 9:
            stats = archive.stats
            print(f"generation {generation}: coverage {stats.coverage:.3f}, QD score {stats.qd_score:.1f}")
