"""Gaussian kernel sums over N behaviours. Each rank computes its share of the rows.

    s_i = sum_k v_k exp(-|x_i - x_k|^2 / (2 bandwidth^2))

Rows are split at fixed boundaries, and every rank sums a row in the same order, so the bits do not depend on the
number of ranks. A tile of kernel values stays in cache; no N x N array exists.
"""

import math

import numpy as np

from ees_mpi.outcomes import Floats, Normalization, Outcomes, Singles
from ees_mpi.ranks import Ranks

ROWS = 16
COLUMNS = 5120  # at most, so that a tile and its temporary stay in the cache
NARROWEST, WIDEST = 1e-6, 1e6  # bandwidths; beyond them, distances in single precision are infinite or zero


def kernel_sums(x: Floats, bandwidth: float, ranks: Ranks, weights: Floats | None = None) -> Floats:
    """Return s[N] for x [N, B]; `weights`: v[N], all 1 if None."""
    scaled = np.ascontiguousarray(x.T * (1.0 / (bandwidth * math.sqrt(2.0))), np.float32)
    v = (np.ones(len(x)) if weights is None else weights).astype(np.float32)
    tiles = np.empty((2, ROWS, tile_width(len(x))), np.float32)
    return ranks.in_blocks(len(x), ROWS, lambda block: _sum_rows(scaled, block, v, tiles))


def _sum_rows(x: Singles, block: slice, v: Singles, tiles: Singles) -> Floats:
    """Sum the kernel over all columns for one block of rows; x is [B, N]."""
    rows = x[:, block, None]
    sums = np.zeros(rows.shape[1])
    width = tile_width(x.shape[1])
    for start in range(0, x.shape[1], width):
        columns = x[:, start : start + width]
        tile, step = tiles[:, : rows.shape[1], : columns.shape[1]]
        np.subtract(rows[0], columns[0], out=tile)
        np.square(tile, out=tile)
        for row, column in zip(rows[1:], columns[1:], strict=True):
            np.subtract(row, column, out=step)
            np.square(step, out=step)
            np.add(tile, step, out=tile)
        np.negative(tile, out=tile)
        np.exp(tile, out=tile)
        sums += np.vecdot(tile, v[start : start + width])
    return sums


def tile_width(count: int) -> int:
    """Return the width of as few tiles as possible, all about equally wide: a narrow tile costs as many calls."""
    return -(-count // -(-count // COLUMNS))


def density(outcomes: Outcomes, bandwidth: float, ranks: Ranks, normalization: Normalization = "whiten") -> Floats:
    """Return p_i = (1/N) sum_k K_ik over the normalised behaviours, computed once per generation."""
    x = outcomes.normalised(normalization)
    sums: Floats = outcomes.once(("density", bandwidth, normalization), lambda: kernel_sums(x, bandwidth, ranks))
    return sums / len(x)


def entropy(outcomes: Outcomes, bandwidth: float, ranks: Ranks) -> float:
    """Return an estimate of the differential entropy of the behaviour, in nats, with the kernel density of MaxEnt.

    The kernel has the standard deviation `bandwidth` on the whitened behaviours; the log of their standard
    deviations converts the estimate to the units of the task. -inf if a component does not vary.
    """
    std: Floats = outcomes.behavior[outcomes.valid].std(axis=0)
    if not (outcomes.whitened.any(axis=0)).all():
        return -math.inf
    p = density(outcomes, bandwidth, ranks) / (math.sqrt(2 * math.pi) * bandwidth) ** len(std)
    return float(np.log(std).sum() - np.log(p).mean())
