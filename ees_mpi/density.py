"""Gaussian kernel sums over N behaviours, each rank its share of the rows.

    s_i = sum_k v_k exp(-|x_i - x_k|^2 / (2 bandwidth^2))

Rows are cut at fixed boundaries and every row is summed in the same order whoever sums it, so the bits do not
depend on the number of ranks. A tile of kernel values stays in cache; no N x N array exists.
"""

import math

import numpy as np

from ees_mpi.outcomes import Floats, Outcomes, Singles
from ees_mpi.ranks import Ranks

ROWS = 32
COLUMNS = 4096


def kernel_sums(x: Floats, bandwidth: float, ranks: Ranks, weights: Floats | None = None) -> Floats:
    """Return s[N] for x [N, B]; `weights`: v[N], all 1 where None."""
    scaled = (x.T * (1.0 / (bandwidth * math.sqrt(2.0)))).astype(np.float32)
    scaled_weights = None if weights is None else weights.astype(np.float32)
    shares = ranks.shares(-(-len(x) // ROWS))
    mine = [_rows(scaled, block, scaled_weights) for block in shares[ranks.rank]]
    counts = [sum(min(ROWS, len(x) - block * ROWS) for block in share) for share in shares]
    return ranks.gather(np.concatenate([*mine, np.empty(0)]), counts)


def _rows(x: Singles, block: int, weights: Singles | None) -> Floats:
    """Sum the kernel over all columns for one block of rows; x is [B, N]."""
    rows = x[:, block * ROWS : (block + 1) * ROWS]
    sums = np.zeros(rows.shape[1])
    for start in range(0, x.shape[1], COLUMNS):
        columns = x[:, start : start + COLUMNS]
        tile = np.subtract.outer(rows[0], columns[0])
        np.multiply(tile, tile, out=tile)
        for row, column in zip(rows[1:], columns[1:], strict=True):
            step = np.subtract.outer(row, column)
            np.multiply(step, step, out=step)
            np.add(tile, step, out=tile)
        np.negative(tile, out=tile)
        np.exp(tile, out=tile)
        if weights is not None:
            np.multiply(tile, weights[start : start + COLUMNS], out=tile)
        sums += tile.sum(axis=1)
    return sums


def density(outcomes: Outcomes, bandwidth: float, ranks: Ranks) -> Floats:
    """Return p_i = (1/N) sum_k K_ik over the whitened behaviours, computed once per generation."""
    x = outcomes.whitened
    sums: Floats = outcomes.once(("density", bandwidth), lambda: kernel_sums(x, bandwidth, ranks))
    return sums / len(x)
