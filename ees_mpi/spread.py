"""How spread out places are: formulas on arrays, which know nothing of runs. `metrics.py` has their names.

n individuals, K starts, A numbers of a place.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Floats
from ees_mpi.ranks import Ranks
from ees_mpi.strategy.density import WIDEST, kernel_sums

SECTORS = 12  # of the histogram of directions
WIDE, NARROW = 0.9, 0.5  # shares above which a kernel is called saturated
OUTLIERS = 5  # percent of the places at either end that may be wild


class Scale(NamedTuple):
    """The lengths that some metrics need, the same for all generations and runs that are compared."""

    cell: Floats  # [A], the sides of a cell
    radius: float  # an individual that ends nearer to the origin has no direction

    @classmethod
    def fitting(cls, places: Floats, cell: float | None = None, radius: float | None = None) -> "Scale":
        """Return lengths that fit places [n, A] of all runs: a twentieth of their span, and a tenth of the longest.

        They are rounded to 1, 2 or 5 times a power of ten, so that they stay the same while a run goes on.
        cell, radius: in place of these, because the user gave them, or the task: the paper's robots have 1 and 5
        """
        some = places if len(places) else np.zeros((1, places.shape[1]))
        low, high = np.percentile(some, (OUTLIERS, 100 - OUTLIERS), axis=0)
        sides = [cell or rounded(span / 20) for span in (high - low).tolist()]
        return cls(np.array(sides), radius or rounded(float((high - low).max()) / 10))

    def __str__(self) -> str:
        return f"{self.words('cell')}, {self.words('radius')}"

    def words(self, length: str) -> str:
        """Return a length in words."""
        if length == "radius":
            return f"radius {self.radius:g}"
        same = (self.cell == self.cell[0]).all()
        return "cells of " + " x ".join(f"{side:g}" for side in (self.cell[:1] if same else self.cell))


def rounded(length: float) -> float:
    """Return the nearest of 1, 2 and 5 times a power of ten; 1 for a length of 0."""
    if not length > 0:
        return 1.0
    power = math.floor(math.log10(length))
    near = [float(f"{step}e{power}") for step in (1, 2, 5, 10)]
    return min(near, key=lambda step: abs(math.log(step / length)))


def neighbours(places: Floats, width: Floats, ranks: Ranks) -> Floats:
    """Return the mean [n] of the kernel values of all for each one; `width` [A]: their standard deviations."""
    x = (places - np.median(places, axis=0)) / width
    x = np.clip(x, -WIDEST, WIDEST)  # wild places are alone anyway, and single precision has no larger squares
    return kernel_sums(x, 1.0, ranks) / len(x)


def entropy(near: Floats, width: Floats) -> float:
    """Estimate the differential entropy, nats, from the `neighbours` of all, with kernels of this `width` [A].

    Training climbs an entropy whose kernel is as wide as a part of the cloud, so it hardly sees that a cloud parts into
    clumps. This one does: its width is the same for all generations, runs and objectives.
    """
    p = near / (2 * math.pi) ** (len(width) / 2)
    return float(np.log(width).sum() - np.log(p).mean())


def saturation(near: Floats) -> str:
    """Return a warning if the entropy depends on the cell more than on the places; `near`: `neighbours` in cells."""
    if len(near) < 2 or near.mean() > WIDE:
        return "in cells of this size all individuals are neighbours of each other; --cell takes a smaller one"
    if (1 / (len(near) * near)).mean() > NARROW:  # the kernel is 1 at its centre
        return (
            f"the cells are so small that hardly any of the {len(near)} individuals has neighbours, so entropy_fixed "
            "and coverage mostly count the individuals; --cell takes a larger one"
        )
    return ""


def coverage(places: Floats, cell: Floats) -> float:
    """Return the number of occupied cells of a grid (Mengistu et al. 2016, evolvability search)."""
    return float(len(np.unique(np.floor(places / cell), axis=0)))


def best_of(place: Floats, scored: Floats, count: int) -> float:
    """Return the expected score of the best of `count` in a direction, mean over directions; NaN for fewer places.

    place, scored: [n, A] of each; the place chooses the best one. Directions: both on a line, eight in the plane, both
    along each number of longer places. With x_1 <= ... <= x_n along a direction, the expected maximum of k of them is
    sum_i x_i C(i - 1, k - 1) / C(n, k).
    """
    (n, axes), k = place.shape, count
    if n < k:
        return math.nan
    share = np.zeros(n)
    share[-1] = k / n
    for i in range(n - 1, k - 1, -1):
        share[i - 1] = share[i] * (i + 1 - k) / i
    angles = np.arange(8) * math.pi / 4
    toward = np.stack([np.cos(angles), np.sin(angles)]) if axes == 2 else np.hstack([np.eye(axes), -np.eye(axes)])
    order = np.argsort(place @ toward, axis=0, kind="stable")  # [n, directions]
    return float((share @ np.take_along_axis(scored @ toward, order, axis=0)).mean())


def distance(places: Floats) -> float:
    """Return the mean distance from the origin of places [n, K, A]."""
    return float(np.sqrt(np.square(places).sum(axis=2)).mean())


def best_elsewhere(by_start: Floats, count: int) -> float:
    """Return `best_of` for places [n, K, A]: each start chooses in turn, and the mean over the others is the score."""
    total, others = by_start.sum(axis=1), by_start.shape[1] - 1
    chosen = [by_start[:, start] for start in range(others + 1)]
    return float(np.mean([best_of(place, (total - place) / others, count) for place in chosen]))


def balance(left: float, right: float) -> float:
    """Return 1 if two shares are equal, 0 if one of them is 0, and NaN if both are."""
    return 2 * min(left, right) / (left + right) if left + right else math.nan


def directions(far: Floats) -> Floats:
    """Return the shares by sector of places [n, 2]; sector 0 is centred on +x, the next go towards +y."""
    sector = np.floor(np.arctan2(far[:, 1], far[:, 0]) / (2 * math.pi / SECTORS) + 0.5).astype(int) % SECTORS
    counts = np.bincount(sector, minlength=SECTORS)
    return np.asarray(counts / max(counts.sum(), 1))


def evenness(shares: Floats) -> float:
    """Return the entropy of some shares over its maximum; NaN if all of them are 0."""
    some = shares[shares > 0]
    return float(-(some * np.log(some)).sum() / math.log(len(shares))) + 0.0 if len(some) else math.nan


def correlation(places: Floats) -> float:
    """Return the correlation of two numbers of a place, of several pairs the strongest; NaN if a number is constant."""
    if len(places) < 2 or not (places.std(axis=0) > 0).all():
        return math.nan
    pairs = np.asarray(np.corrcoef(places.T))[np.triu_indices(places.shape[1], 1)]
    return float(pairs[np.abs(pairs).argmax()])


def predictability(x: Floats, group: NDArray[np.int32], groups: int, ranks: Ranks) -> float:
    """Return how well whitened behaviours [n, B] predict the group [n] of each: 0 not at all, 1 perfectly.

    Goodman and Kruskal's tau: the group of each one is guessed from a kernel density of the others (Silverman's rule),
    and compared with a guess that does not use the behaviour.
    """
    n, dim = x.shape
    if n < 2:
        return math.nan
    width = (n * (dim + 2) / 4) ** (-1 / (dim + 4))
    everybody = kernel_sums(x, width, ranks) - 1
    right, chance = np.zeros(n), 0.0
    for number in range(groups):
        member = group == number
        own = kernel_sums(x, width, ranks, weights=member.astype(np.float64)) - 1
        others = (member.sum() - 1) / (n - 1)  # the guess for one without neighbours
        near = np.where(everybody > 1e-3, own / np.maximum(everybody, 1e-3), others)
        right[member] = near[member]
        chance += member.mean() * others
    return float((right.mean() - chance) / (1 - chance)) if chance < 1 else 0.0


def variances(places: Floats) -> tuple[float, float, float]:
    """Return the variances of mutations, starts and their interaction, of places [n, K, A]; see `heritability`."""
    (n, k), mean = places.shape[:2], places.mean(axis=(0, 1))
    if n < 2:
        return math.nan, math.nan, math.nan
    rows, starts = places.mean(axis=1, keepdims=True), places.mean(axis=0, keepdims=True)
    of_rows = k * float(np.square(rows - mean).sum()) / (n - 1)
    of_starts = n * float(np.square(starts - mean).sum()) / (k - 1)
    rest = float(np.square(places - rows - starts + mean).sum()) / ((n - 1) * (k - 1))
    return (of_rows - rest) / k, (of_starts - rest) / n, rest


def share(first: float, *others: float) -> float:
    """Return the first of some variances over their sum; NaN if nothing varies."""
    total = sum((first, *others))
    return first / total if total > 0 else math.nan
