"""A point walks in a box with two walls: which width of MaxEnt's kernel fills the box, and which empties its middle?

    cd jobs/examples
    ees-mpi sweep box.toml --set objective.bandwidth=1.0,scott --seeds 0-4 | bash
    ees-mpi compare --metric entropy --metric entropy_fixed --metric coverage --by objective.bandwidth box-*.h5
    ees-mpi figure sweep box-*.h5 --by objective.bandwidth --metric entropy_fixed -o entropy.png

A small network sees the place and a clock, and moves the point for 60 steps. The behaviour is where the point ends.
"""

import numpy as np

HIDDEN, STEPS = 12, 60
PARAMETERS = 4 * HIDDEN + HIDDEN + HIDDEN * 2 + 2  # of two layers: 86
SIDE, SPEED = 6.0, 0.12  # of the box, and in one step
WALLS = ((1.2, 1), (-1.2, -1))  # where x is 1.2, one passes above y = 1; where it is -1.2, below y = -1


def walk(z, start=(0.0, 0.0)):
    """Return where the networks z [n, 86] lead the point: places [n, 2]."""
    n, sizes = len(z), (4 * HIDDEN, HIDDEN, HIDDEN * 2, 2)
    first, bias, second, output = np.split(np.float64(z), np.cumsum(sizes)[:-1], axis=1)
    first, second = first.reshape(n, 4, HIDDEN), second.reshape(n, HIDDEN, 2)
    place = np.tile(np.float64(start), (n, 1))
    for step in range(STEPS):
        clock = np.tile([np.sin(step / 6), step / STEPS], (n, 1))
        seen = np.concatenate([place * 2 / SIDE, clock], axis=1)
        hidden = np.tanh(np.einsum("ni,nih->nh", seen, first) + bias)
        move = SPEED * np.tanh(np.einsum("nh,nho->no", hidden, second) + output)
        target = np.clip(place + move, -SIDE / 2, SIDE / 2)
        for x, side in WALLS:
            crosses = (place[:, 0] < x) != (target[:, 0] < x)
            blocked = crosses & (side * target[:, 1] < 1)
            target[blocked, 0] = place[blocked, 0]
        place = target
    return place
