"""The measures of the offspring of one generation or sample, computed from a file.

Some of them are also logged during training; those that have the same name have the same value.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ees_mpi.analysis.numbers.scale import Scale
from ees_mpi.analysis.offspring import Offspring
from ees_mpi.outcomes import Floats
from ees_mpi.ranks import Ranks
from ees_mpi.strategy import density
from ees_mpi.strategy.density import WIDEST

SECTORS = 12  # of the direction histogram
BEST_OF = 40  # mutations, as in the paper's few-shot adaptation
WIDE, NARROW = 0.9, 0.5  # shares above which a kernel is called saturated


def neighbours(offspring: Offspring, scale: Scale) -> Floats:
    """Return the mean [n] of the kernel values of all for each one; a kernel is one cell wide, and 1 at its centre."""
    x = (offspring.position - np.median(offspring.position, axis=0)) / scale.cell
    x = np.clip(x, -WIDEST, WIDEST)  # wild places are alone anyway, and single precision has no larger squares
    sums: Floats = offspring.outcomes.once(("cells", *scale.cell), lambda: density.kernel_sums(x, 1.0, Ranks()))
    return sums / len(x)


def entropy_fixed(offspring: Offspring, scale: Scale) -> float:
    """Estimate the differential entropy of the place, nats, with a kernel whose standard deviation is one cell.

    Training climbs the `entropy`, whose kernel is as wide as a part of the cloud. So it hardly sees that a cloud parts
    into clumps. This one does: its width is the same for all generations, runs and objectives.
    """
    p = neighbours(offspring, scale) / (2 * math.pi) ** (len(scale.cell) / 2)
    return float(np.log(scale.cell).sum() - np.log(p).mean())


def saturation(offspring: Offspring, scale: Scale) -> str:
    """Return a warning if the entropy depends on the cell more than on the places; empty otherwise."""
    p = neighbours(offspring, scale)
    if len(p) < 2 or p.mean() > WIDE:
        return "in cells of this size all individuals are neighbours of each other; --cell takes a smaller one"
    if (1 / (len(p) * p)).mean() > NARROW:
        return (
            "in cells of this size individuals have hardly any neighbours, so entropy_fixed and coverage show only "
            f"that there are {len(p)}; --cell takes a larger one"
        )
    return ""


def best_of(offspring: Offspring, scale: Scale, count: int = BEST_OF) -> float:
    """Return the expected distance of the best of `count` random offspring in a direction, mean over directions.

    Directions: both on a line, eight in the plane, both along each number of longer behaviors. With values x_1 <= ...
    <= x_n along a direction, the expected maximum of k of them is sum_i x_i C(i - 1, k - 1) / C(n, k). NaN if k > n.
    """
    return best_scored(offspring.position, offspring.position, count)


def best_scored(place: Floats, scored: Floats, count: int = BEST_OF) -> float:
    """Return the expected score of the best of `count` offspring in a direction, mean over the directions of `best_of`.

    place, scored: [n, B] of each offspring; the place chooses the best one, and `scored` is its score
    """
    (n, dim), k = place.shape, count
    if n < k:
        return math.nan
    share = np.zeros(n)
    share[-1] = k / n
    for i in range(n - 1, k - 1, -1):
        share[i - 1] = share[i] * (i + 1 - k) / i
    angles = np.arange(8) * math.pi / 4
    toward = np.stack([np.cos(angles), np.sin(angles)]) if dim == 2 else np.hstack([np.eye(dim), -np.eye(dim)])
    order = np.argsort(place @ toward, axis=0, kind="stable")  # [n, directions]
    return float((share @ np.take_along_axis(scored @ toward, order, axis=0)).mean())


def beyond_radius(offspring: Offspring, scale: Scale) -> NDArray[np.bool_]:
    """Return [n] whether each one left the radius; a robot that falls at the start has no direction."""
    return np.asarray(offspring.distance >= scale.radius)


def sides(offspring: Offspring, scale: Scale) -> tuple[float, float]:
    """Return the shares that went left and right; individuals within the radius count as neither."""
    x, far = offspring.position[:, 0], beyond_radius(offspring, scale)
    return float((far & (x < 0)).mean()), float((far & (x > 0)).mean())


def balance(offspring: Offspring, scale: Scale) -> float:
    """Return 2 min(left, right) / (left + right): 1 if both shares are equal, 0 if one is 0, NaN if both are."""
    left, right = sides(offspring, scale)
    return 2 * min(left, right) / (left + right) if left + right else math.nan


def directions(offspring: Offspring, scale: Scale) -> Floats:
    """Return the shares by sector of those beyond the radius; sector 0 is centred on +x, the next go towards +y."""
    x, y = offspring.position[beyond_radius(offspring, scale)].T
    sector = np.floor(np.arctan2(y, x) / (2 * math.pi / SECTORS) + 0.5).astype(int) % SECTORS
    counts = np.bincount(sector, minlength=SECTORS)
    return np.asarray(counts / max(counts.sum(), 1))


def direction_uniformity(offspring: Offspring, scale: Scale) -> float:
    """Return the entropy of the direction histogram over its maximum; NaN if nobody left the radius."""
    share = directions(offspring, scale)
    share = share[share > 0]
    return float(-(share * np.log(share)).sum() / math.log(SECTORS)) + 0.0 if len(share) else math.nan


def specialization(offspring: Offspring, scale: Scale) -> float:
    """Measure how well the behavior predicts the component of an individual: 0 not at all, 1 perfectly.

    Goodman and Kruskal's tau: the component of each individual is guessed from a kernel density of the others
    (Silverman's rule), and compared with a guess that does not use the behavior.
    """
    x, (n, dim) = offspring.outcomes.whitened, offspring.outcomes.whitened.shape
    width = (n * (dim + 2) / 4) ** (-1 / (dim + 4))
    everybody = density.kernel_sums(x, width, Ranks()) - 1
    right, chance = np.zeros(n), 0.0
    for component in range(offspring.components):
        member = offspring.parent == component
        own = density.kernel_sums(x, width, Ranks(), weights=member.astype(np.float64)) - 1
        others = (member.sum() - 1) / (n - 1)  # the guess for an individual without neighbours
        near = np.where(everybody > 1e-3, own / np.maximum(everybody, 1e-3), others)
        right[member] = near[member]
        chance += member.mean() * others
    return float((right.mean() - chance) / (1 - chance)) if chance < 1 else 0.0


def correlation(offspring: Offspring, scale: Scale) -> float:
    """Return the correlation of the two numbers of the final position; of several pairs the strongest one.

    A ring has 0. Ranks and whitening look at one number at a time, so they do not see it. NaN if a number is constant.
    """
    place = offspring.position
    if len(place) < 2 or not (place.std(axis=0) > 0).all():
        return math.nan
    pairs = np.asarray(np.corrcoef(place.T))[np.triu_indices(place.shape[1], 1)]
    return float(pairs[np.abs(pairs).argmax()])


def variances(places: Floats) -> tuple[float, float, float]:
    """Return the variances of mutations, starts and their interaction of places [N, K, B]; see `heritability`."""
    (n, k), mean = places.shape[:2], places.mean(axis=(0, 1))
    rows, starts = places.mean(axis=1, keepdims=True), places.mean(axis=0, keepdims=True)
    of_rows = k * float(np.square(rows - mean).sum()) / (n - 1)
    of_starts = n * float(np.square(starts - mean).sum()) / (k - 1)
    rest = float(np.square(places - rows - starts + mean).sum()) / ((n - 1) * (k - 1))
    return (of_rows - rest) / k, (of_starts - rest) / n, rest


def share(heritable: float, start: float, interaction: float) -> float:
    """Return the share of the mutations in the sum of the variances; NaN if nothing varies."""
    total = heritable + start + interaction
    return heritable / total if total > 0 else math.nan


NEEDS: dict[str, Callable[[Offspring], bool]] = {
    "": lambda offspring: True,
    "a behaviour of one number": lambda offspring: bool(offspring.position.shape[1] == 1),
    "a behaviour of two numbers": lambda offspring: bool(offspring.position.shape[1] == 2),
    "a behaviour of two or more numbers": lambda offspring: bool(offspring.position.shape[1] > 1),
    "a mixture of means": lambda offspring: offspring.components > 1 and len(offspring.parent) > 1,
    "the same starts for all: ees-mpi measure --starts K": lambda offspring: min(offspring.crossed.shape[:2]) > 1,
}
ALL, LINE, PLANE, SEVERAL, MIXTURE, CROSSED = NEEDS


class Measure(NamedTuple):
    """One number of the offspring of a generation."""

    compute: Callable[[Offspring, Scale], float]
    about: str
    needs: str = ALL

    def fits(self, offspring: Offspring) -> bool:
        """Return whether the measure is defined for these offspring."""
        return NEEDS[self.needs](offspring)


DIRECTED = ("balance", "direction_uniformity")  # measured over the offspring beyond the radius
ENOUGH = 100  # of them; directions of fewer say little
MEASURES = {
    "distance_mean": Measure(lambda o, s: float(o.distance.mean()), "mean distance from the origin"),
    "distance_max": Measure(lambda o, s: float(o.distance.max()), "largest distance from the origin"),
    "distance_variance": Measure(lambda o, s: float(o.distance.var()), "variance of the distance from the origin"),
    "near_origin": Measure(lambda o, s: float((o.distance < s.radius).mean()), "share that ended within the radius"),
    "covariance_trace": Measure(  # whitened per component, MaxVar climbs the logarithm of each of its terms
        lambda o, s: float(o.outcomes.behavior[o.outcomes.valid].var(axis=0).sum()),
        "trace of the behaviour's covariance",
    ),
    "entropy": Measure(lambda o, s: o.entropy, "entropy of the behaviour with the objective's kernel, nats"),
    "entropy_fixed": Measure(entropy_fixed, "entropy of the place with a kernel of one cell, nats"),
    "coverage": Measure(  # Mengistu et al. 2016, evolvability search
        lambda o, s: float(len(np.unique(np.floor(o.position / s.cell), axis=0))),
        "distinct places: occupied cells of a grid",
    ),
    "best_of_40": Measure(best_of, "expected distance of the best of 40 in a direction, mean over directions"),
    "balance": Measure(balance, "left and right: 2 min / (left + right); 1 equal shares, 0 all to one side", LINE),
    "direction_uniformity": Measure(direction_uniformity, "directions: 1 all equally often, 0 only one", PLANE),
    "correlation": Measure(correlation, "correlation of the behaviour's components: 0 for a ring", SEVERAL),
    "specialization": Measure(specialization, "how well the behaviour predicts the component: 0 to 1", MIXTURE),
    "heritable": Measure(lambda o, s: variances(o.crossed)[0], "variance that belongs to the mutation", CROSSED),
    "share": Measure(lambda o, s: share(*variances(o.crossed)), "heritable over all variance: ICC(A,1)", CROSSED),
    "fitness_mean": Measure(lambda o, s: float(o.outcomes.fitness[o.outcomes.valid].mean()), "mean fitness"),
}
