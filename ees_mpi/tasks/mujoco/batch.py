"""How a batch of individuals is placed on a GPU.

An individual is means[parent] + sign * std * noise[offset : offset + D]. Worlds are arranged in rows of one or two
worlds; the worlds of a row share one noise vector, so an antithetic pair reads its noise once. The unperturbed mean
(sign 0) needs no noise and takes any free world.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ees_mpi.outcomes import Batch, Singles


@dataclass(frozen=True)
class Placement:
    """One pass over the device: which individual of the batch is in which world."""

    member: NDArray[np.int64]  # [m] places in the batch
    world: NDArray[np.int64]  # [m] row * width + column
    offset: NDArray[np.int64]  # [rows] start of the noise vector of each row
    sign: Singles  # [rows * width]; 0 in unused worlds
    parent: NDArray[np.int64]  # [rows * width]


def passes(batch: Batch, rows: int, width: int, sampled: int) -> Iterator[Placement]:
    """Place a batch in as few passes as its order allows: at most `rows` rows and `sampled` observed rollouts each."""
    waiting: list[Sequence[int]] = []
    observed, observe = 0, batch.observe.tolist()
    for row in _rows(batch.offset.tolist(), batch.sign.tolist(), width):
        more = sum(observe[i] for i in row)
        if waiting and (len(waiting) == rows or observed + more > sampled):
            yield _place(batch, waiting, rows, width)
            waiting, observed = [], 0
        waiting.append(row)
        observed += more
    if waiting:
        yield _place(batch, waiting, rows, width)


def _rows(offset: Sequence[int], sign: Sequence[int], width: int) -> list[Sequence[int]]:
    """Group individuals into rows: neighbours with the same noise together, unperturbed means into free worlds."""
    if width == 1:
        return [(i,) for i in range(len(offset))]
    rows: list[list[int]] = []
    for i, direction in enumerate(sign):
        if direction and rows and len(rows[-1]) == 1 and offset[rows[-1][0]] == offset[i]:
            rows[-1].append(i)
        elif direction:
            rows.append([i])
    free = [row for row in reversed(rows) if len(row) == 1]
    for i, direction in enumerate(sign):
        if not direction:
            if not free:
                rows.append([])
                free = [rows[-1]] * 2
            free.pop().append(i)
    return list(rows)


def _place(batch: Batch, filled: Sequence[Sequence[int]], rows: int, width: int) -> Placement:
    member = np.array([i for row in filled for i in row], np.int64)
    world = np.array(
        [number * width + column for number, row in enumerate(filled) for column in range(len(row))], np.int64
    )
    sign, parent = np.zeros(rows * width, np.float32), np.zeros(rows * width, np.int64)
    sign[world], parent[world] = batch.sign[member], batch.parent[member]
    offset = np.zeros(rows, np.int64)
    perturbed = batch.sign[member] != 0
    offset[world[perturbed] // width] = batch.offset[member[perturbed]]
    return Placement(member, world, offset, sign, parent)
