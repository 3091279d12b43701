#!/usr/bin/env python3
"""Print the commands of the second plan (docs/reproduce.md), block by block; its rules are functions here.

    python jobs/paper/second_plan.py a b        the blocks a and b
    python jobs/paper/second_plan.py            all blocks, in their order

Each line writes one file; a line that starts from another run names its file. The plan: the released program's rules,
100 generations, fresh seeds; endpoints are means over generations 90 to 99. A claim gets a verdict only if all of its
planned runs are there. It needs all of its tests, so p values are not corrected. TOST never refutes a claim.
"""

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from endpoints import PAPERS_ROBOTS, Row, number, select
from intervals import LEVEL, Interval, paired_ratio, ratio
from plan import FRESH, Paper, print_blocks, sets
from scipy.stats import mannwhitneyu, ttest_ind

AGREES, NOT, UNDECIDED = "agrees with the paper", "not reproduced", "undecided"
RANGE = (0.85, 1.00)  # the range of the ratio that agrees with the paper's 0.92 and 0.94
SIDE = 0.25  # least share of offspring on each side
RING, FAR = 1 / 3, 5.0  # least share of the ring in the mean distance, least mean distance
CHEETAHS, SIX = range(6, 18), range(6, 12)  # seeds; the ants have six
LATE = "_90_99"
WHITENED = "L2 0.005, sd 0.7071"  # the released rules with whitening: the settings that differ from the text
RUNS = Paper("mujoco", "paper", seeds=18, folder=Path(), maml=True)


def cheetah(seeds: Iterable[int], *presets: str, more: Iterable[str] = ()) -> list[str]:
    """Return trainings of the cheetah with their adaptations and offspring, seed by seed."""
    lines = []
    for seed, preset in ((seed, preset) for seed in seeds for preset in presets):
        lines += [RUNS.train(preset, seed, more=list(more)), *RUNS.adapt(preset, seed), RUNS.sample(preset, seed)]
    return lines


def seeding(seed: int) -> list[str]:
    """Return standard ES towards +x: from MaxEnt, from a random mean, from a control that walks towards +y."""

    def further(start: str) -> str:
        return RUNS.train(
            "ant-adapt-authors", seed, f"{start}-further", more=[*FRESH, "--from", RUNS.file(start, seed)]
        )

    lines = [further("ant-maxent-authors"), RUNS.train("ant-adapt-authors", seed)]
    if seed <= 8:
        sideways = sets("task.direction=90.0", "run.generations=30")
        lines.append(RUNS.train("ant-es-authors", seed, "ant-es-authors-sideways", more=sideways))
        lines.append(further("ant-es-authors-sideways"))
    return lines


def blocks() -> dict[str, list[str]]:
    """Return the commands of each block; MAML has as many steps as 30 generations, and offspring of both sizes."""
    whiten, equal = sets("objective.normalization=whiten"), sets("run.generations=375")
    maml = [[*cheetah([seed], "cheetah-maml", more=equal), RUNS.quarter("cheetah-maml", seed)] for seed in range(6)]
    names = {seed: ("maxent", "es") if seed <= 8 else ("maxent",) for seed in range(6, 12)}
    return {
        "a": cheetah(range(6, 12), "cheetah-es-authors", "cheetah-maxent-authors"),
        "b": cheetah(range(12, 18), "cheetah-es-authors", "cheetah-maxent-authors"),
        "c": [
            RUNS.train("cheetah-maxent-authors", seed, "cheetah-maxent-authors-whiten", more=whiten)
            for seed in range(6, 12)
        ],
        "d": [RUNS.train(f"ant-{name}-authors", seed) for seed, both in names.items() for name in both],
        "e": [RUNS.train("ant-es-authors", seed) for seed in range(9, 12)]
        + [line for seed in range(6, 12) for line in seeding(seed)],
        "g": cheetah(range(6, 12), "cheetah-maxvar-authors")
        + [RUNS.train("ant-maxvar-authors", seed) for seed in range(6, 9)],
        "f": [line for lines in maml for line in lines],
    }


def distance_verdict(found: Interval) -> str:
    """Return the verdict on the primary claim: the place of the interval relative to 0.85 and 1.00."""
    if RANGE[0] <= found.low and found.high <= RANGE[1]:
        return AGREES
    return NOT if found.high < RANGE[0] or found.low > RANGE[1] else UNDECIDED


def power(first: Sequence[float], second: Sequence[float], true: float = 0.92, tries: int = 20_000) -> float:
    """Return how often the primary claim would agree, if the ratio were `true` and the spread that of these runs."""
    draw = np.random.default_rng(0).standard_normal
    a, b = (np.std(np.log(each), ddof=1) * draw((tries, len(each))) for each in (first, second))
    found = ttest_ind(a + math.log(true), b, equal_var=False, axis=1).confidence_interval(1 - 2 * LEVEL)
    return float(((found.low >= math.log(RANGE[0])) & (found.high <= math.log(RANGE[1]))).mean())


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


class Finding(NamedTuple):
    """What the runs say on one claim: numbers, and a verdict that waits for all planned runs."""

    found: str
    verdict: str


def finding(found: str, judge: Callable[[], str], there: int, planned: int) -> Finding:
    """Return a finding; `judge` is called if all planned runs are there."""
    if not there:
        return Finding("-", "not run")
    return Finding(found, judge() if there == planned else f"no verdict ({there} of {planned} runs)")


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
    """Return the verdicts of the second plan, claim by claim."""
    standard, maxent = (group(rows, CHEETAHS, "cheetah", name) for name in ("standard ES", "MaxEnt"))
    far, base, twelve, six = distances(maxent), distances(standard), len(CHEETAHS), len(SIX)
    there, ants = min(len(far), len(base)), group(rows, SIX, "ant", "MaxEnt")
    sides, rings = sum(map(has_sides, maxent.values())), sum(map(has_ring, ants.values()))
    main, (p, further) = ratio(far, base), further_verdict(far, base) if there else (math.nan, "")
    few = {seed: row for seed, row in maxent.items() if seed in SIX}
    cause = paired(few, group(rows, SIX, "cheetah", "MaxEnt", "other", WHITENED))
    return {
        "distance": finding(f"{main}", lambda: distance_verdict(main), there, twelve),
        "further": finding(f"p = {p:.2g}", lambda: further, there, twelve),
        "sides": finding(f"{sides} of {len(far)} runs", lambda: count_verdict(sides, twelve), len(far), twelve),
        "ring": finding(f"{rings} of {len(ants)} runs", lambda: count_verdict(rings, six), len(ants), six),
        "cause": finding(f"{cause}", lambda: cause_verdict(cause), cause.runs, six),
    }


def paired(first: dict[int, Row], second: dict[int, Row]) -> Interval:
    """Return the ratio of the distances of runs of the same seed."""
    seeds = sorted(set(first) & set(second))
    return paired_ratio(*(distances({seed: each[seed] for seed in seeds}) for each in (first, second)))


if __name__ == "__main__":
    sys.exit(print_blocks("second_plan.py", blocks(), sys.argv[1:]))
