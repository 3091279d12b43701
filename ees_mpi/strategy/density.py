"""Gaussian kernel sums over N behaviours. Each rank computes its share of the rows.

    s_i = sum_k v_k exp(-|x_i - x_k|^2 / (2 bandwidth^2))

Rows are split at fixed boundaries, and every rank sums a row in the same order, so the bits do not depend on the
number of ranks. A tile of kernel values stays in cache; no N x N array exists.
"""

import math

import numpy as np

from ees_mpi.arrays import Bandwidth, Floats, Normalization, Singles
from ees_mpi.generation import Outcomes
from ees_mpi.ranks import Ranks

ROWS = 16
COLUMNS = 5120  # at most, so that a tile and its temporary stay in the cache
NARROWEST, WIDEST = 1e-6, 1e6  # bandwidths; beyond them, distances in single precision are infinite or zero
NORMAL_IQR = 1.349  # the interquartile range of a normal distribution, in standard deviations


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


def width(outcomes: Outcomes, bandwidth: Bandwidth, normalization: Normalization = "whiten") -> float:
    """Return the width of the kernel as a number."""
    if not isinstance(bandwidth, str):
        return bandwidth
    x = outcomes.normalised(normalization)
    std = np.ones(x.shape[1]) if normalization == "whiten" else x.std(axis=0)
    found: float = outcomes.once(("scott", normalization), lambda: scott(x, std))
    return found


def scott(x: Floats, std: Floats) -> float:
    """Return the width by Scott's rule for normalised behaviours x [N, B], whose standard deviations are `std` [B].

    h = N^(-1 / (d + 4)) min_j min(std_j, IQR_j / 1.349)

    The interquartile range IQR of a normal distribution is 1.349 standard deviations. A few outliers make the standard
    deviation large, and the rest of the whitened behaviours small; the range sees that. Of a component whose range is
    0, only the standard deviation counts. Constant components count neither in d nor in the minimum.
    """
    varies = x.any(axis=0)
    low, high = np.percentile(x[:, varies], (25, 75), axis=0)
    std, extent = std[varies], (high - low) / NORMAL_IQR
    narrowest = np.where(extent > 0, np.minimum(std, extent), std).min(initial=1.0)
    return max(float(len(x) ** (-1 / (varies.sum() + 4)) * narrowest), NARROWEST)


def density(outcomes: Outcomes, bandwidth: Bandwidth, ranks: Ranks, normalization: Normalization = "whiten") -> Floats:
    """Return p_i = (1/N) sum_k K_ik over the normalised behaviours, computed once per generation."""
    x, h = outcomes.normalised(normalization), width(outcomes, bandwidth, normalization)
    sums: Floats = outcomes.once(("density", h, normalization), lambda: kernel_sums(x, h, ranks))
    return sums / len(x)


def entropy(outcomes: Outcomes, bandwidth: Bandwidth, ranks: Ranks) -> float:
    """Return an estimate of the differential entropy of the behaviour, in nats, with the kernel density of MaxEnt.

    The kernel has the width `bandwidth` on the whitened behaviours; the log of their standard deviations converts the
    estimate to the units of the task. -inf if a component does not vary.
    """
    std: Floats = outcomes.behavior[outcomes.valid].std(axis=0)
    if not (outcomes.whitened.any(axis=0)).all():
        return -math.inf
    h = width(outcomes, bandwidth)
    p = density(outcomes, h, ranks) / (math.sqrt(2 * math.pi) * h) ** len(std)
    return float(np.log(std).sum() - np.log(p).mean())
