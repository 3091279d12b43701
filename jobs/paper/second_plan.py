"""The second plan: the released program's rules, 100 generations, fresh seeds. `docs reproduce` has it in words.

Endpoints are means over generations 90 to 99. A claim gets a verdict only if all of its planned runs are there; before
that its numbers are shown. A claim needs all of its tests, so p values are not corrected. TOST never refutes a claim.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from endpoints import Row, number, select
from scipy.stats import mannwhitneyu, t
from verdicts import welch

AGREES, NOT, UNDECIDED = "agrees with the paper", "not reproduced", "undecided"
PLANNED = "no verdict planned"
LEVEL = 0.05
PAPER = (0.85, 1.00)  # the range of the ratio that agrees with the paper's 0.92 and 0.94
SIDE = 0.25  # least share of offspring on each side
RING, FAR = 1 / 3, 5.0  # least share of the ring in the mean distance, least mean distance
CHEETAHS, ANTS = range(6, 18), range(6, 12)  # seeds
SIX = range(6, 12)
LATE = "_90_99"


@dataclass(frozen=True)
class Interval:
    """A ratio of geometric means with its 90 % interval; `first`, `second`: numbers of runs."""

    ratio: float
    low: float
    high: float
    first: int
    second: int

    def __str__(self) -> str:
        """Return the ratio and the interval as the page shows them."""
        if math.isnan(self.ratio):
            return "-"
        return f"{self.ratio:.2f}" if math.isnan(self.low) else f"{self.ratio:.2f} ({self.low:.2f} to {self.high:.2f})"


def ratio(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Return the ratio of geometric means with Welch's interval on logarithms; without one for single runs."""
    if not (len(first) and len(second)):
        return Interval(math.nan, math.nan, math.nan, len(first), len(second))
    found = welch(np.asarray(first), np.asarray(second))
    plain = math.exp(np.log(first).mean() - np.log(second).mean())
    return Interval(plain, found.low, found.high, len(first), len(second))


def paired_ratio(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Return the geometric mean of the ratios of pairs, with the 90 % interval of Student's t."""
    logs = np.log(first) - np.log(second)
    count = len(logs)
    if count < 2:
        return Interval(math.exp(logs[0]) if count else math.nan, math.nan, math.nan, count, count)
    half = t.ppf(1 - LEVEL, count - 1) * logs.std(ddof=1) / math.sqrt(count)
    low, middle, high = np.exp(logs.mean() + np.array([-half, 0.0, half]))
    return Interval(float(middle), float(low), float(high), count, count)


def distance_verdict(found: Interval) -> str:
    """Return the verdict on the primary claim: the place of the interval relative to 0.85 and 1.00."""
    if PAPER[0] <= found.low and found.high <= PAPER[1]:
        return AGREES
    return NOT if found.high < PAPER[0] or found.low > PAPER[1] else UNDECIDED


def further_verdict(first: Sequence[float], standard: Sequence[float]) -> tuple[float, str]:
    """Return the two-sided p of Mann-Whitney, and whether standard ES moves further."""
    p = float(mannwhitneyu(first, standard, method="exact").pvalue)
    if p >= LEVEL:
        return p, UNDECIDED
    return p, AGREES if np.median(first) < np.median(standard) else NOT


def has_sides(left: float, right: float) -> bool:
    """Return whether a run has both sides: each has a quarter of all offspring."""
    return min(left, right) >= SIDE


def has_ring(ring: float, distance: float) -> bool:
    """Return whether an ant has a ring: its thinnest sector, taken eight times, is a third of the mean distance."""
    return distance >= FAR and ring >= RING * distance


def count_verdict(there: int, runs: int) -> str:
    """Return the verdict on a property of runs: 10 of 12 (5 of 6) hold it up, 6 of 12 (2 of 6) are too few."""
    least, most = {12: (10, 6), 6: (5, 2)}[runs]
    return AGREES if there >= least else NOT if there <= most else UNDECIDED


def cause_verdict(found: Interval) -> str:
    """Return whether ranks are the cause: the interval of ranks over whitening excludes 1."""
    return "ranks are the cause" if found.low > 1 else "ranks hinder" if found.high < 1 else UNDECIDED


@dataclass(frozen=True)
class Finding:
    """What the runs say on one claim: numbers, verdict, runs that are there and runs that were planned."""

    claim: str
    paper: str
    found: str
    verdict: str
    runs: tuple[int, ...]
    planned: tuple[int, ...]
    refuted: str  # what counts as not reproduced


class Runs:
    """The runs of the plan: released rules or a swap of them, 100 generations, N = 10,000, by seed."""

    def __init__(self, rows: Sequence[Row], seeds: Sequence[int]):
        self.rows, self.seeds = rows, seeds

    def get(self, robot: str, algorithm: str, rules: str = "released", changed: str = "") -> dict[int, Row]:
        """Return the runs of a group, by seed."""
        chosen = select(
            self.rows,
            lambda row: int(row["generations"]) >= 100 and int(row["seed"]) in self.seeds,
            robot=robot,
            algorithm=algorithm,
            engine="mujoco",
            rules=rules,
            changed=changed,
            kind="training",
            population="10000",
        )
        return {int(row["seed"]): row for row in chosen if row.get("direction") in ("", "0")}


def values(runs: dict[int, Row], column: str) -> list[float]:
    """Return an endpoint of some runs."""
    return [number(row, column + LATE) for row in runs.values()]


def finding(
    words: tuple[str, str, str], shown: str, judge: Callable[[], str], runs: Sequence[int], planned: Sequence[int]
) -> Finding:
    """Return a finding whose verdict waits for all planned runs."""
    claim, paper, refuted = words
    complete = tuple(runs) == tuple(planned)
    counts = ", ".join(dict.fromkeys(f"{there} of {all_of}" for there, all_of in zip(runs, planned, strict=True)))
    verdict = judge() if complete else f"no verdict ({counts} runs)" if any(runs) else "not run"
    return Finding(claim, paper, shown if any(runs) else "-", verdict, tuple(runs), tuple(planned), refuted)


WHITENED = "L2 0.005, sd 0.7071"  # the released rules with whitening: the settings that differ from the text
WORDS = {
    "distance": (
        "cheetah: MaxEnt goes about as far as standard ES",
        "0.94",
        "the interval of the ratio lies wholly below 0.85 or above 1.00",
    ),
    "further": ("cheetah: standard ES goes further", "p < 0.05", "p < 0.05 in the other direction"),
    "sides": (
        "cheetah: offspring run to both sides",
        "two sides",
        "6 of 12 runs or fewer have a quarter of the offspring on each side",
    ),
    "ring": ("ant: offspring walk in all directions", "a ring", "2 of 6 runs or fewer have a ring"),
    "ant": ("ant: MaxEnt over standard ES, distance", "0.83", "nothing: the spread between seeds is too large"),
    "equal": (
        "cheetah: MaxVar over MaxEnt, same seed",
        "p > 0.1",
        "nothing: no difference is expected, and no test is planned",
    ),
    "cause": (
        "cheetah: ranks over whitening, else as released",
        "-",
        "ranks are not the cause if the interval is below 1",
    ),
}


def examine(rows: Sequence[Row]) -> dict[str, Finding]:
    """Return what the runs of the second plan say, claim by claim."""
    cheetahs, six = Runs(rows, CHEETAHS), Runs(rows, SIX)
    standard, maxent = cheetahs.get("cheetah", "standard ES"), cheetahs.get("cheetah", "MaxEnt")
    far, base = values(maxent, "distance"), values(standard, "distance")
    main, both = ratio(far, base), sum(map(has_sides, values(maxent, "left"), values(maxent, "right")))
    further = further_verdict(far, base) if far and base else (math.nan, "")
    counts, twelve = (len(far), len(base)), (len(CHEETAHS),) * 2
    shown = f"p = {further[0]:.2g}" if counts == twelve else "-"
    found = {
        "distance": finding(WORDS["distance"], f"{main}", lambda: distance_verdict(main), counts, twelve),
        "further": finding(WORDS["further"], shown, lambda: further[1], counts, twelve),
        "sides": finding(
            WORDS["sides"],
            f"{both} of {len(maxent)} runs",
            lambda: count_verdict(both, len(maxent)),
            counts[:1],
            twelve[:1],
        ),
    }
    ants, standard = six.get("ant", "MaxEnt"), six.get("ant", "standard ES")
    rings = sum(map(has_ring, values(ants, "ring"), values(ants, "distance")))
    shown = f"{rings} of {len(ants)} runs"
    found["ring"] = finding(WORDS["ring"], shown, lambda: count_verdict(rings, len(ants)), (len(ants),), (6,))
    over = ratio(values(ants, "distance"), values(standard, "distance"))
    found["ant"] = finding(WORDS["ant"], f"{over}", lambda: PLANNED, (len(ants), len(standard)), (6, 6))
    for name, (first, second), judge in (
        ("equal", (six.get("cheetah", "MaxVar"), six.get("cheetah", "MaxEnt")), lambda found: PLANNED),
        ("cause", (six.get("cheetah", "MaxEnt"), six.get("cheetah", "MaxEnt", "other", WHITENED)), cause_verdict),
    ):
        found[name] = _paired(WORDS[name], first, second, judge)
    return found


def _paired(
    words: tuple[str, str, str], first: dict[int, Row], second: dict[int, Row], judge: Callable[[Interval], str]
) -> Finding:
    """Return a finding on pairs of runs of the same seed."""
    seeds = sorted(set(first) & set(second))
    found = paired_ratio(*(values({seed: each[seed] for seed in seeds}, "distance") for each in (first, second)))
    return finding(words, f"{found}", lambda: judge(found), (len(seeds),), (len(SIX),))
