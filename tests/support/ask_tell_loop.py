"""A loop with `ees_mpi.Strategy` on several ranks, with a fault on rank 1: `python ask_tell_loop.py RUN.h5`."""

import os
import sys

import numpy as np

import ees_mpi

OUT = sys.argv[1]
RANK = int(os.environ["OMPI_COMM_WORLD_RANK"])
SETTINGS = {"noise": {"size": 5000}, "run": {"fsync": False}}

with ees_mpi.Strategy(np.ones(3), size=20, std=0.1, config=SETTINGS, record=OUT) as es:
    for generation in range(4):
        z = es.ask()
        if RANK == 1 and generation == 2:
            z = z[1:]
        es.tell(np.sin(5 * z[:, :2]) * z[:, 2:])
