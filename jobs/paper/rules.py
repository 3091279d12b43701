"""Tests and ratios with their 90 % intervals, and groups of runs. Endpoints are means over generations 90 to 99."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from endpoints import Row, number, trainings
from scipy.stats import ttest_1samp, ttest_ind

from ees_mpi.analysis.numbers import statistics
from ees_mpi.arrays import Floats

LEVEL = 0.05
RING, FAR = 1 / 3, 5.0  # least share of the ring in the mean distance, least mean distance
SIX = range(6, 12)  # seeds of the runs with the released rules, and of the third plan
ANTS = range(9, 15)  # seeds of the fourth plan; its cheetahs have six, too
STAGES = range(15, 21)  # seeds of the fifth plan
LATE = "_90_99"
WHITENED = "L2 0.005, sd 0.7071"  # the released rules with whitening: the settings that differ from the text


@dataclass(frozen=True)
class Interval:
    """A ratio of geometric means with its 90 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the ratio and the interval as the page shows them."""
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def ratio(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> Interval:
    """Return the ratio of geometric means of two groups, with the interval of Welch's t of logarithms."""
    a, b = np.log(first), np.log(second)
    low, high = ttest_ind(a, b, equal_var=False).confidence_interval(1 - 2 * LEVEL)
    return Interval(math.exp(a.mean() - b.mean()), math.exp(low), math.exp(high))


def paired_ratio(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Return the geometric mean of the ratios of pairs, with the interval of Student's t of logarithms."""
    logs = np.log(first) - np.log(second)
    low, high = ttest_1samp(logs, 0).confidence_interval(1 - 2 * LEVEL)
    return Interval(math.exp(logs.mean()), math.exp(low), math.exp(high))


def mann_whitney(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> tuple[float, bool]:
    """Return the two-sided p, and whether the first group lies above the second."""
    u, p, _ = statistics.mann_whitney(np.asarray(first), np.asarray(second))
    return p, u > len(first) * len(second) / 2


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
