"""Tests, ratios with their 90 % intervals, and the verdicts of the fourth and fifth plan (docs/reproduce.md).

Endpoints are means over generations 90 to 99. A claim gets a verdict only if all of its planned runs are there, and
needs all of its tests, so p values are not corrected. claims.py has the verdicts of the sixth plan.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from endpoints import Row, number, trainings
from scipy.stats import mannwhitneyu, ttest_1samp, ttest_ind

from ees_mpi.outcomes import Floats

HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"
LEVEL = 0.05
RING, FAR = 1 / 3, 5.0  # least share of the ring in the mean distance, least mean distance
LEAST = 0.67  # of the ratio of the cheetahs' heritable variances
SECTORS = 8  # of the reliable ring
SIX = range(6, 12)  # seeds of the runs with the released rules, and of the third plan
ANTS = range(9, 15)  # seeds of the fourth plan; its cheetahs have six, too
STAGES = range(15, 21)  # seeds of the fifth plan
LATE = "_90_99"
WHITENED = "L2 0.005, sd 0.7071"  # the released rules with whitening: the settings that differ from the text


@dataclass(frozen=True)
class Interval:
    """A ratio of geometric means with its 90 % interval; without one for single runs."""

    value: float
    low: float = math.nan
    high: float = math.nan

    def __str__(self) -> str:
        """Return the ratio and the interval as the page shows them."""
        if math.isnan(self.value):
            return "-"
        return f"{self.value:.2f}" if math.isnan(self.low) else f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def ratio(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> Interval:
    """Return the ratio of geometric means of two groups, with the interval of Welch's t of logarithms."""
    if not (len(first) and len(second)):
        return Interval(math.nan)
    a, b = np.log(first), np.log(second)
    value = math.exp(a.mean() - b.mean())
    if min(len(a), len(b)) < 2:
        return Interval(value)
    low, high = ttest_ind(a, b, equal_var=False).confidence_interval(1 - 2 * LEVEL)
    return Interval(value, math.exp(low), math.exp(high))


def paired_ratio(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Return the geometric mean of the ratios of pairs, with the interval of Student's t of logarithms."""
    logs = np.log(first) - np.log(second)
    low, high = ttest_1samp(logs, 0).confidence_interval(1 - 2 * LEVEL)
    return Interval(math.exp(logs.mean()), math.exp(low), math.exp(high))


def mann_whitney(first: Sequence[float], second: Sequence[float]) -> tuple[float, bool]:
    """Return the two-sided p, and whether the first group lies above the second."""
    test = mannwhitneyu(first, second, method="exact")
    return float(test.pvalue), bool(test.statistic > len(first) * len(second) / 2)


def holm(ps: Sequence[float]) -> list[float]:
    """Return p values with Holm's correction for their number."""
    corrected, largest = dict.fromkeys(range(len(ps)), 1.0), 0.0
    for place, which in enumerate(sorted(range(len(ps)), key=lambda each: ps[each])):
        largest = corrected[which] = max(largest, min(1.0, ps[which] * (len(ps) - place)))
    return [corrected[which] for which in range(len(ps))]


def group(
    rows: Sequence[Row], seeds: Sequence[int], robot: str, algorithm: str, rules: str = "released", changed: str = ""
) -> dict[int, Row]:
    """Return the runs of 100 generations by seed, with the released rules or a swap of them."""
    long = [row for row in trainings(rows, robot, algorithm, rules, changed) if int(row["generations"]) >= 100]
    return {int(row["seed"]): row for row in long if int(row["seed"]) in seeds}


def distances(runs: dict[int, Row]) -> list[float]:
    """Return the endpoint of some runs."""
    return [number(row, f"distance{LATE}") for row in runs.values()]


def over(first: dict[int, Row], second: dict[int, Row]) -> Interval:
    """Return the ratio of the distances of two groups of runs."""
    return ratio(distances(first), distances(second))


def paired(first: dict[int, Row], second: dict[int, Row]) -> Interval:
    """Return the ratio of the distances of runs of the same seed."""
    seeds = sorted(set(first) & set(second))
    return paired_ratio(*(distances({seed: each[seed] for seed in seeds}) for each in (first, second)))


def has_ring(row: Row, ending: str = LATE) -> bool:
    """Return whether an ant has a ring: its thinnest sector, taken eight times, is a third of the mean distance."""
    distance = number(row, f"distance{ending}")
    return distance >= FAR and number(row, f"ring{ending}") >= RING * distance


def count_verdict(there: int, runs: int) -> str:
    """Return the verdict on a property of six runs: five hold it up, two are too few."""
    if runs != 6:
        raise ValueError(f"expected six runs, got {runs}")
    return HOLDS if there >= 5 else FAILS if there <= 2 else UNDECIDED


def above_verdict(first: Sequence[float], *others: Sequence[float]) -> str:
    """Return whether a group exceeds each of the others, as in the first two claims of the fourth plan."""
    found = [above if p < LEVEL else None for p, above in (mann_whitney(first, other) for other in others)]
    return HOLDS if all(found) else FAILS if False in found else UNDECIDED


def share_verdict(share: Sequence[Sequence[float]], amount: Interval) -> str:
    """Return whether the cheetah's share rises, and the heritable variance does not fall (its ratio: `amount`)."""
    found = above_verdict(*share)
    return UNDECIDED if found == HOLDS and not amount.low > LEAST else found


def ring_verdict(sectors: Sequence[float]) -> str:
    """Return whether runs have the reliable ring: reliable mutations in all eight sectors."""
    return count_verdict(sum(count == SECTORS for count in sectors), len(sectors))


def when_complete(planned: int, verdict: Callable[..., str], *groups: Sequence[float]) -> str:
    """Return the verdict on groups of runs, which waits for all planned runs."""
    there = min(map(len, groups))
    return (
        verdict(*groups) if there == planned else f"no verdict ({there} of {planned} runs)" if there else "not run yet"
    )
