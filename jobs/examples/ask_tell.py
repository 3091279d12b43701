"""Ask and tell on a toy: a folded arm with three joints unfolds, because its mutations then reach more places.

python jobs/examples/ask_tell.py          mpirun -n 3 python jobs/examples/ask_tell.py
"""

import numpy as np

import ees_mpi


def simulate(z):
    """Return where the hands of the arms z [n, 3] are: [n, 2]."""
    angle = np.cumsum(z.astype(float), axis=1)
    return np.stack([np.cos(angle).sum(axis=1), np.sin(angle).sum(axis=1)], axis=1)


with ees_mpi.Strategy([0.0, 3.0, 0.0], objective="maxent", size=200, std=0.3, seed=0) as es:
    for generation in range(101):
        es.tell(simulate(es.ask()))
        if generation % 50 == 0:
            print(f"generation {generation}: entropy {es.metrics['entropy']:.2f}, mean {es.mean}")
print(es.state.digest().hex())
