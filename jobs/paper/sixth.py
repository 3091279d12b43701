#!/usr/bin/env python3
"""The sixth plan (plan6.md): the endpoints of its runs and its verdicts.

    python jobs/paper/sixth.py                   of the runs that are in the repository so far
    python jobs/paper/sixth.py PATH ...          of blocks of runs, and of folders of small files

The paper's ratios are those of the mean distance over that of standard ES. A claim gets its verdict when each of its
arms has twelve runs: `reproduced`, `in direction only` (of distances), `not reproduced`, or `not decided`.

A test decides against a claim if it finds the opposite, and nothing if it finds nothing. A count decides for a claim
with ten runs of twelve, and against it with six or fewer.
"""

import argparse
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from blocks import KeptRun, read_block, read_folder
from endpoints import directions, facts, lines
from places import FAR
from rules import LEVEL, mann_whitney, ratio

HERE = Path(__file__).parent
RUNS, GENERATIONS = 12, 100
WINDOW = slice(90, 100)
SIDE, RING = 0.05, 1 / 3  # least share of the smaller side; least evenness
MOST, FEW = 10, 6  # with so many of twelve runs a claim is reproduced; with so few it is not
REPRODUCED, DIRECTION, NOT_REPRODUCED, OPEN = "reproduced", "in direction only", "not reproduced", "not decided"
ES = "standard ES"
PAPER = {"cheetah": {"MaxVar": 0.921, "MaxEnt": 0.939}, "ant": {"MaxVar": 0.854, "MaxEnt": 0.832}}
NOTED = re.compile(r"^\| (\S+) \| \d+ \| `([0-9a-f]{16})` \|$", re.MULTILINE)  # digests in the plan


@dataclass(frozen=True)
class Endpoints:
    """The endpoints of a run; those of the other robot are NaN."""

    run: str
    arm: tuple[str, str, str]  # rules, robot, algorithm
    digest: str
    distance: float
    near: float  # share that ended within 5 units of the start
    side: float  # share on the smaller side, beyond 5 units
    evenness: float  # the smallest sum of distances of eight sectors, over their mean
    directions: float  # of 36


Arms = dict[tuple[str, str, str], list[Endpoints]]


def endpoints_of(run: KeptRun) -> Endpoints:
    """Return the endpoints of a run."""
    late = {name: values[WINDOW] for name, values in run.metrics.items()}
    known, distance = facts(run), late["distance_mean"]
    side = evenness = reached = math.nan
    if known["robot"] == "cheetah":
        # `balance` is twice the smaller side over both, of those beyond 5 units; NaN if there is nobody.
        side = float((np.nan_to_num(late["balance"]) * (1 - late["near_origin"]) / 2).mean())
    else:
        # `ring` is 8 times the smallest sum over all individuals, also invalid ones.
        evenness = float((late["ring"] / (distance * (1 - late["invalid_share"]))).mean())
        reached = directions(run.last[np.isfinite(run.last).all(axis=1)])  # of 1,000 individuals
    arm = (known["rules"], known["robot"], known["algorithm"])
    means = float(distance.mean()), float(late["near_origin"].mean())
    return Endpoints(run.name, arm, known["digest"], *means, side, evenness, reached)


def runs_in(path: Path) -> list[KeptRun]:
    """Return the runs of a block, or of a folder that has the small files of each run in a folder of their own."""
    if path.is_dir():
        return [read_folder(each.parent) for each in sorted(path.glob("*/run.json"))]
    return read_block(path)


def read(paths: Sequence[Path], plan: str) -> Arms:
    """Return the endpoints of all runs by arm; raise a ValueError if a run has not the digest that it should have."""
    noted = dict(NOTED.findall(plan))
    found: dict[str, Endpoints] = {}
    for run in (run for path in paths for run in runs_in(path)):
        digest = run.about["state_sha256"]
        others = [found[run.name].digest] if run.name in found else []
        for other in [*others, noted.get(run.name, digest)]:
            if not digest.startswith(other[:16]):
                raise ValueError(f"{run.name}: its digest is {digest[:16]}, and was {other[:16]} before")
        if run.generations != GENERATIONS:
            raise ValueError(f"{run.name}: {run.generations} generations; expected {GENERATIONS}")
        found[run.name] = endpoints_of(run)
    arms: Arms = {}
    for name in sorted(found):
        arms.setdefault(found[name].arm, []).append(found[name])
    return arms


def compared(first: Sequence[float], second: Sequence[float]) -> tuple[float, int]:
    """Return the p of a two-sided Mann-Whitney U test, and 1, -1 or 0: the first is larger, smaller, or neither."""
    p, larger = mann_whitney(first, second)
    return p, 0 if p >= LEVEL else 1 if larger else -1


def verdict_of_test(sign: int) -> str:
    """Return the verdict on a claim that the first group is larger."""
    return {1: REPRODUCED, 0: OPEN, -1: NOT_REPRODUCED}[sign]


def distance_claim(es: list[Endpoints], other: list[Endpoints], paper: float) -> tuple[str, str]:
    """Compare the distances of an arm with those of standard ES; return the numbers in words, and the verdict."""
    theirs, ours = [run.distance for run in es], [run.distance for run in other]
    (p, sign), interval = compared(theirs, ours), ratio(ours, theirs)
    said = f"ratio {interval}, p = {p:.2g}; the paper: {paper}"
    if sign == 1 and not interval.low <= paper <= interval.high:
        return said, DIRECTION
    return said, verdict_of_test(sign)


def near_claim(es: list[Endpoints], other: list[Endpoints]) -> tuple[str, str]:
    """Compare the shares near the start with those of standard ES, which should be larger."""
    theirs, ours = [run.near for run in es], [run.near for run in other]
    p, sign = compared(theirs, ours)
    return f"{np.mean(ours):.1%} against {np.mean(theirs):.1%}, p = {p:.2g}", verdict_of_test(sign)


def counted(held: list[bool]) -> tuple[str, str]:
    """Return how many runs have something, in words, and the verdict."""
    count = sum(held)
    verdict = REPRODUCED if count >= MOST else NOT_REPRODUCED if count <= FEW else OPEN
    return f"{count} of {len(held)} runs", verdict


def sides_claim(runs: list[Endpoints]) -> tuple[str, str]:
    """Count the runs with both sides."""
    return counted([run.side >= SIDE for run in runs])


def ring_claim(runs: list[Endpoints]) -> tuple[str, str]:
    """Count the runs with an even ring."""
    return counted([run.evenness >= RING and run.distance >= FAR for run in runs])


def difference(first: list[Endpoints], second: list[Endpoints]) -> tuple[str, str]:
    """Compare the distances of MaxVar with those of MaxEnt."""
    one, two = [run.distance for run in first], [run.distance for run in second]
    p, sign = compared(one, two)
    return f"ratio {ratio(one, two)}, p = {p:.2g}", "difference" if sign else OPEN


def claims(arms: Arms, rules: str, robot: str) -> list[tuple[str, str, str]]:
    """Return the claims about a robot whose arms have runs: in words, the numbers, the verdict."""
    es, maxvar, maxent = (arms.get((rules, robot, name), []) for name in (ES, "MaxVar", "MaxEnt"))
    found: list[tuple[str, str, str]] = []

    def add(words: str, claim: Callable[..., tuple[str, str]], needed: Sequence[list[Endpoints]], *more: float) -> None:
        if all(needed):
            said, verdict = claim(*needed, *more)
            found.append((f"{robot}: {words}", said, verdict if all(len(arm) == RUNS for arm in needed) else "-"))

    for name, arm in (("MaxVar", maxvar), ("MaxEnt", maxent)):
        add(f"standard ES goes further than {name}", distance_claim, [es, arm], PAPER[robot][name])
        if robot == "cheetah":
            add(f"{name} runs to both sides", sides_claim, [arm])
        else:
            add(f"{name} has an even ring", ring_claim, [arm])
            add(f"of standard ES more stay near the start than of {name}", near_claim, [es, arm])
    add("the distance of MaxVar differs from that of MaxEnt", difference, [maxvar, maxent])
    return found


def of_run(run: Endpoints) -> list[str]:
    """Return the cells of a run, or of the means of an arm."""
    numbers = f"{run.distance:.2f}", f"{run.near:.1%}", f"{run.side:.1%}", f"{run.evenness:.2f}", f"{run.directions:g}"
    return [run.run, *(text if "nan" not in text else "" for text in numbers)]


def mean_of(arm: tuple[str, str, str], runs: list[Endpoints]) -> Endpoints:
    """Return the means of an arm."""
    numbers = [[run.distance, run.near, run.side, run.evenness, run.directions] for run in runs]
    return Endpoints(f"**{arm[2]}, {len(runs)} runs**", arm, "", *np.mean(numbers, axis=0).tolist())


def report(arms: Arms) -> str:
    """Return the tables of all runs, and of the claims."""
    head = ("run", "distance", "near the start", "smaller side", "evenness of the ring", "directions of 36")
    found = []
    for rules, robot in dict.fromkeys((rules, robot) for rules, robot, _ in arms):
        mine = {arm: runs for arm, runs in arms.items() if arm[:2] == (rules, robot)}
        rows = [of_run(each) for arm, runs in mine.items() for each in [*runs, mean_of(arm, runs)]]
        table = lines(("claim", "here", "verdict"), claims(arms, rules, robot))
        found += [f"## {robot}, {rules} rules\n", lines(head, rows), table]
    return "\n".join(found)


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", default=[HERE / "results" / "sixth.h5"])
    plan = (HERE / "plan6.md").read_text(encoding="utf-8")
    print(report(read(parser.parse_args().paths, plan)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
