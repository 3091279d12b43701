"""A cart-pole for many individuals at once, in numpy, under mpirun. The behaviour: where the cart is after 4 seconds.

    mpirun -n 3 python jobs/examples/cart_pole.py [RUN.h5]          ees-mpi info RUN.h5

The same command continues RUN.h5. `chunk` makes the bits independent of the number of ranks: a matrix product may have
other bits for other numbers of rows.
"""

import os
import sys

import numpy as np

import ees_mpi

UNITS, STEPS, DT = 16, 200, 0.02
SIZES = (4 * UNITS, UNITS, UNITS)  # weights from the observation, biases, weights to the force


def simulate(z):
    """Return the last positions [n, 1] of the carts that the networks z [n, D] push; a fallen pole stops its cart."""
    first, bias, last = np.split(z, np.cumsum(SIZES)[:-1], axis=1)
    first = first.reshape(len(z), 4, UNITS)
    x, speed, angle, turn = np.zeros((4, len(z)))
    angle += 0.02
    for _ in range(STEPS):
        seen = np.stack([x, speed, angle, turn], axis=1).astype(np.float32)
        hidden = np.tanh((seen[:, None] @ first)[:, 0] + bias)
        force = 10.0 * np.tanh((hidden * last).sum(axis=1))
        push = (force + 0.05 * turn**2 * np.sin(angle)) / 1.1
        turning = (9.8 * np.sin(angle) - np.cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1))
        moving = push - 0.05 * turning * np.cos(angle) / 1.1
        alive = (np.abs(angle) < 0.21) & (np.abs(x) < 2.4)
        x, speed = x + alive * DT * speed, speed + alive * DT * moving
        angle, turn = angle + alive * DT * turn, turn + alive * DT * turning
    return x[:, None]


def begin(out):
    """Return a new loop, or that of a run file."""
    if out and os.path.exists(out):
        return ees_mpi.Strategy.resume(out)
    mean = np.random.default_rng(0).normal(0.0, 0.3, sum(SIZES))
    return ees_mpi.Strategy(mean, objective="maxent", size=512, std=0.1, seed=0, record=out)


with begin(sys.argv[1] if len(sys.argv) > 1 else None) as es:
    for _ in range(20):
        es.tell([simulate(part) for part in es.ask(chunk=64)])
print(f"entropy {es.metrics['entropy']:.3f}, {es.state.digest().hex()}")
