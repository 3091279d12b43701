"""The share of signal in a gradient, estimated from the gradients of two independent halves of its population.

The gradient of a half is G + n: the signal G and noise n, whose mean is 0. Half a is the mean of the gradients A_1 ...
A_m of its groups of individuals, half b that of B_1 ... B_m.

    S     = a . b                               estimates |G|^2, because the halves are independent
    nu    = mean_j |A_j - a|^2 / (m - 1)        estimates |n|^2; the whole population has the noise nu / 2
    ratio = S / (nu / 2)                        share of signal = |G|^2 / (|G|^2 + nu / 2) = ratio / (1 + ratio)

The error of S has two parts. The products A_j . B_k form a table. The variance of its rows and columns is the product
of signal and noise (C); what rows and columns leave over is the product of noise and noise (R). Another random split of
the same individuals has the same C, and shares half of R. So the mean over s splits has the variance
C + R (1 + 1 / s) / 2.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ees_mpi.outcomes import Floats

ERRORS = 2.0  # half the length of an interval, in standard errors: it covers the true value in about 95 of 100 cases


@dataclass(frozen=True)
class Split:
    """The numbers of one split into halves of m groups each."""

    products: Floats  # [m, m]: A_j . B_k
    noise: Floats  # [2, m]: |A_j - a|^2 / (m - 1) and |B_k - b|^2 / (m - 1)
    cosine: float  # of a and b


@dataclass(frozen=True)
class Ratio:
    """The ratio of signal to noise in the whole gradient, and its standard error; NaN if the gradient is 0."""

    value: float
    error: float

    def interval(self) -> tuple[float, float]:
        """Return the limits of an interval of about 95 percent; no ratio is below 0."""
        low, high = (self.value + sign * ERRORS * self.error for sign in (-1, 1))
        return (max(low, 0.0), max(high, 0.0)) if math.isfinite(self.error) else (math.nan, math.nan)


def share(ratio: float) -> float:
    """Return the share of signal in the squared length of a gradient with this ratio of signal to noise."""
    return ratio / (1 + ratio) if ratio > 0 else ratio if math.isnan(ratio) else 0.0


def split_of(first: Floats, second: Floats) -> Split:
    """Return the numbers of a split from the gradients [m, D] of the groups of both halves."""
    m = len(first)
    halves = [groups.mean(axis=0) for groups in (first, second)]
    noise = [
        np.square(groups - half).sum(axis=1) / (m - 1) for groups, half in zip((first, second), halves, strict=True)
    ]
    lengths = math.sqrt(float(halves[0] @ halves[0]) * float(halves[1] @ halves[1]))
    cosine = float(halves[0] @ halves[1]) / lengths if lengths > 0 else math.nan
    return Split(first @ second.T, np.array(noise), cosine)


def ratio_of(splits: Sequence[Split]) -> Ratio:
    """Return the ratio of signal to noise in the whole gradient, from several splits of the same individuals."""
    if not splits:
        return Ratio(math.nan, math.nan)
    signal = float(np.mean([split.products.mean() for split in splits]))
    noise = float(np.mean([split.noise.mean() for split in splits]))
    if not noise > 0:
        return Ratio(math.nan, math.nan)
    parts = np.mean([_variances(split, signal / noise) for split in splits], axis=0)
    variance = max(parts[0], 0.0) + parts[1] * (1 + 1 / len(splits)) / 2
    return Ratio(signal / (noise / 2), math.sqrt(variance) / (noise / 2))


def _variances(split: Split, ratio: float) -> tuple[float, float]:
    """Return C and R; the groups of a half with much noise lower the ratio, so their noise is part of C."""
    m, table = len(split.products), split.products
    sides = [table.mean(axis=1), table.mean(axis=0)]
    rest = table - sides[0][:, None] - sides[1][None] + table.mean()
    left = float(np.square(rest).sum()) / (m - 1) ** 2 / m**2
    effects = [side - ratio / 2 * noise for side, noise in zip(sides, split.noise, strict=True)]
    return sum(float(effect.var(ddof=1)) / m - left for effect in effects), left
