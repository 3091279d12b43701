"""The second plan: the released program's rules, 100 generations, fresh seeds. `docs reproduce` has it in words.

Endpoints are means over generations 90 to 99. A claim gets a verdict only if all of its planned runs are there; before
that its numbers are shown. A claim needs all of its tests, so p values are not corrected. TOST never refutes a claim.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from endpoints import PAPERS_ROBOTS, Row, number, select
from intervals import LEVEL, Interval, paired_ratio, ratio
from scipy.stats import mannwhitneyu, ttest_ind

AGREES, NOT, UNDECIDED = "agrees with the paper", "not reproduced", "undecided"
PLANNED = "no verdict planned"
PAPER = (0.85, 1.00)  # the range of the ratio that agrees with the paper's 0.92 and 0.94
SIDE = 0.25  # least share of offspring on each side
RING, FAR = 1 / 3, 5.0  # least share of the ring in the mean distance, least mean distance
CHEETAHS, SIX = range(6, 18), range(6, 12)  # seeds; the ants have six
LATE = "_90_99"
WHITENED = "L2 0.005, sd 0.7071"  # the released rules with whitening: the settings that differ from the text


def distance_verdict(found: Interval) -> str:
    """Return the verdict on the primary claim: the place of the interval relative to 0.85 and 1.00."""
    if PAPER[0] <= found.low and found.high <= PAPER[1]:
        return AGREES
    return NOT if found.high < PAPER[0] or found.low > PAPER[1] else UNDECIDED


def power(first: Sequence[float], second: Sequence[float], true: float = 0.92, tries: int = 20_000) -> float:
    """Return how often the primary claim would agree, if the ratio were `true` and the spread that of these runs."""
    draw = np.random.default_rng(0).standard_normal
    a, b = (np.std(np.log(each), ddof=1) * draw((tries, len(each))) for each in (first, second))
    found = ttest_ind(a + math.log(true), b, equal_var=False, axis=1).confidence_interval(1 - 2 * LEVEL)
    return float(((found.low >= math.log(PAPER[0])) & (found.high <= math.log(PAPER[1]))).mean())


def further_verdict(first: Sequence[float], standard: Sequence[float]) -> tuple[float, str]:
    """Return the two-sided p of Mann-Whitney, and whether standard ES moves further."""
    p = float(mannwhitneyu(first, standard, method="exact").pvalue)
    if p >= LEVEL:
        return p, UNDECIDED
    return p, AGREES if np.median(first) < np.median(standard) else NOT


def has_sides(row: Row, ending: str = LATE) -> bool:
    """Return whether a run has both sides: each has a quarter of all offspring."""
    return min(number(row, f"left{ending}"), number(row, f"right{ending}")) >= SIDE


def has_ring(row: Row, ending: str = LATE) -> bool:
    """Return whether an ant has a ring: its thinnest sector, taken eight times, is a third of the mean distance."""
    distance = number(row, f"distance{ending}")
    return distance >= FAR and number(row, f"ring{ending}") >= RING * distance


def count_verdict(there: int, runs: int) -> str:
    """Return the verdict on a property of runs: 10 of 12 (5 of 6) hold it up, 6 of 12 (2 of 6) are too few."""
    least, most = {12: (10, 6), 6: (5, 2)}[runs]
    return AGREES if there >= least else NOT if there <= most else UNDECIDED


def cause_verdict(found: Interval) -> str:
    """Return whether ranks are the cause: the interval of ranks over whitening excludes 1."""
    return "ranks are the cause" if found.low > 1 else "ranks hinder" if found.high < 1 else UNDECIDED


@dataclass(frozen=True)
class Finding:
    """What the runs say on one claim: numbers, and a verdict that waits for all planned runs."""

    found: str
    verdict: str
    runs: tuple[int, ...]


def finding(shown: str, judge: Callable[[], str], runs: Sequence[int], planned: Sequence[int]) -> Finding:
    """Return a finding; `judge` is called if all planned runs are there."""
    counts = ", ".join(dict.fromkeys(f"{there} of {all_of}" for there, all_of in zip(runs, planned, strict=True)))
    if not any(runs):
        return Finding("-", "not run", tuple(runs))
    return Finding(shown, judge() if list(runs) == list(planned) else f"no verdict ({counts} runs)", tuple(runs))


def group(
    rows: Sequence[Row], seeds: Sequence[int], robot: str, algorithm: str, rules: str = "released", changed: str = ""
) -> dict[int, Row]:
    """Return the runs of the plan by seed: 100 generations, N = 10,000, released rules or a swap of them."""
    facts = {"robot": robot, "algorithm": algorithm, "rules": rules, "changed": changed, "kind": "training"}
    chosen = [row for row in select(rows, **PAPERS_ROBOTS, **facts) if row.get("direction") in ("", "0")]
    return {int(row["seed"]): row for row in chosen if int(row["generations"]) >= 100 and int(row["seed"]) in seeds}


def distances(runs: dict[int, Row]) -> list[float]:
    """Return the endpoint of some runs."""
    return [number(row, f"distance{LATE}") for row in runs.values()]


def examine(rows: Sequence[Row]) -> dict[str, Finding]:
    """Return what the runs of the second plan say, claim by claim."""
    standard, maxent = (group(rows, CHEETAHS, "cheetah", name) for name in ("standard ES", "MaxEnt"))
    far, base = distances(maxent), distances(standard)
    main, both = ratio(far, base), sum(map(has_sides, maxent.values()))
    p, further = further_verdict(far, base) if far and base else (math.nan, "")
    counts, twelve = (len(far), len(base)), (len(CHEETAHS),) * 2
    ants, others = (group(rows, SIX, "ant", name) for name in ("MaxEnt", "standard ES"))
    rings, over = sum(map(has_ring, ants.values())), ratio(distances(ants), distances(others))
    six = group(rows, SIX, "cheetah", "MaxEnt")
    equal = paired(group(rows, SIX, "cheetah", "MaxVar"), six)
    cause = paired(six, group(rows, SIX, "cheetah", "MaxEnt", "other", WHITENED))
    return {
        "distance": finding(f"{main}", lambda: distance_verdict(main), counts, twelve),
        "further": finding(f"p = {p:.2g}" if counts == twelve else "-", lambda: further, counts, twelve),
        "sides": finding(f"{both} of {len(far)} runs", lambda: count_verdict(both, len(far)), counts[:1], twelve[:1]),
        "ring": finding(f"{rings} of {len(ants)} runs", lambda: count_verdict(rings, len(ants)), [len(ants)], [6]),
        "ant": finding(f"{over}", lambda: PLANNED, (len(ants), len(others)), (6, 6)),
        "equal": finding(f"{equal}", lambda: PLANNED, [equal.runs], [6]),
        "cause": finding(f"{cause}", lambda: cause_verdict(cause), [cause.runs], [6]),
    }


def paired(first: dict[int, Row], second: dict[int, Row]) -> Interval:
    """Return the ratio of the distances of runs of the same seed."""
    seeds = sorted(set(first) & set(second))
    return paired_ratio(*(distances({seed: each[seed] for seed in seeds}) for each in (first, second)))
