"""The weighted sum of noise rows; each rank computes a slice of the parameters.

    g[d] = sum_i c_i noise[offset_i + d]                 squared: sum_i c_i (noise[offset_i + d]^2 - 1)

A rank sums all rows for its slice. Each parameter is summed independently, in the order of the rows: in single
precision within fixed groups of rows, then in double precision. So the bits do not depend on the slices.
"""

import itertools

import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Floats, Singles
from ees_mpi.noise import Noise
from ees_mpi.ranks import Ranks

GRAIN = 64  # parameters; slices are multiples of it
GROUP = 64  # rows that are summed in single precision
WIDE = 40_960  # parameters that are summed at a time, at most: the sum and its temporary array stay in the cache
NARROW = 1024  # up to so many parameters, a whole group of rows is summed in one call
PADDED = 16  # with fewer parameters, numpy might sum a group in another order


def weighted_noise(
    coefficient: Floats, offset: NDArray[np.int64], size: int, noise: Noise, ranks: Ranks, squared: bool = False
) -> Floats:
    """Return g[size] for coefficients [M] and offsets [M], on every rank."""
    shares = ranks.cuts(size, GRAIN)
    start, stop = shares[ranks.rank : ranks.rank + 2].tolist()
    factors = coefficient.astype(np.float32)
    cuts = np.linspace(start, stop, -(-(stop - start) // WIDE) + 1).astype(int).tolist()
    parts = [_sum_slice(factors, offset + low, high - low, noise, squared) for low, high in itertools.pairwise(cuts)]
    return ranks.allgather(np.concatenate([*parts, np.empty(0)]), np.diff(shares))


def _sum_slice(factors: Singles, starts: NDArray[np.int64], width: int, noise: Noise, squared: bool) -> Floats:
    """Sum all rows for one slice of parameters."""
    sum_group = _sum_narrow if width <= NARROW else _sum_wide
    total = np.zeros(width)
    for first in range(0, len(starts), GROUP):
        group = slice(first, first + GROUP)
        total += sum_group(factors[group], starts[group], width, noise, squared)
    return total


def _sum_wide(factors: Singles, starts: NDArray[np.int64], width: int, noise: Noise, squared: bool) -> Singles:
    """Sum one group row by row."""
    total = np.zeros(width, np.float32)
    term = np.empty(width, np.float32)
    for factor, start in zip(factors, starts.tolist(), strict=True):
        row = noise.row(start, width)
        if squared:
            row = np.subtract(np.square(row, out=term), np.float32(1), out=term)
        np.multiply(row, factor, out=term)
        np.add(total, term, out=total)
    return total


def _sum_narrow(factors: Singles, starts: NDArray[np.int64], width: int, noise: Noise, squared: bool) -> Singles:
    """Sum one group in one call: numpy adds the rows of a matrix in order, as the loop in `_sum_wide` does."""
    terms = np.zeros((len(starts), max(width, PADDED)), np.float32)
    rows = noise.rows(starts, width)
    if squared:
        rows = np.square(rows) - np.float32(1)
    np.multiply(rows, factors[:, None], out=terms[:, :width])
    return np.add.reduce(terms, axis=0)[:width]
