"""The claims of the paper: what the runs of plan6.md say to each, the verdicts, and the table of results.md.

The paper's ratios are those of the mean distance over that of standard ES. A verdict needs as many runs in each group
as the paper has, and six of MAML: `reproduced`, `in direction only` (of distances), `not reproduced`, or `not decided`.
A test decides against a claim if it finds the opposite, and nothing if it finds nothing. A claim of several tests needs
all of them, with Holm's correction. A count decides for a claim with ten runs of twelve (five of six), and against it
with six or fewer (two). Groups are alike if the interval of their ratio lies inside 0.8 to 1.25 (which is TOST).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from groups import RULES, Groups, Row, column, has_ring, number, planned
from page_tables import lines
from places import FAR
from rules import LEVEL, mann_whitney, ratio

from ees_mpi.analysis.numbers.statistics import holm

RUNS = 12  # of a group in the paper
DISTANCE, NEAR = "distance_90_99", "near_origin_90_99"
SIDE = 0.05  # least share of the smaller side
MOST, FEW = 10, 6  # with so many of twelve runs a claim is reproduced; with so few it is not
SIX_RUNS, MOST_OF_SIX, FEW_OF_SIX = 6, 5, 2  # of mixtures
ALIKE = 0.8, 1.25  # a ratio whose interval lies inside these is none
REPRODUCED, DIRECTION, NOT_REPRODUCED, OPEN = "reproduced", "in direction only", "not reproduced", "not decided"
COVERED = "coverage_last_10"
SPECIAL = 0.5  # least specialization of two networks
BEST = 7.854  # of the interference task: 5 pi / 2
ES, OURS = "standard ES", ("MaxVar", "MaxEnt")
READINGS = ("other starts", "adapt"), ("own start", "adapt_best")  # of an evaluation after adaptation
TESTED = ("MaxEnt", "MAML"), ("MaxEnt", "MaxVar"), ("MaxVar", "MAML")  # of adaptation
PAPER = {"cheetah": {"MaxVar": 0.921, "MaxEnt": 0.939}, "ant": {"MaxVar": 0.854, "MaxEnt": 0.832}}
SIDES_LINK = "do-the-cheetahs-mutations-run-far-and-to-both-sides"  # sections of results.md
RING_LINK, ANT_LINK = "is-there-a-ring-around-the-ant", "how-far-does-the-ant-walk"
MAML_LINK, SEEDS_LINK = "does-it-adapt-better-than-maml", "does-it-give-standard-es-a-head-start"
MIXED_LINK = "mixtures-and-interference"


@dataclass(frozen=True)
class Answer:
    """What some runs say to a claim, in words, with the verdict, and what limits it."""

    about: str  # MaxVar, MaxEnt, or a robot
    said: str
    verdict: str
    limit: str = ""


def answer(about: str, said: str, verdict: str, *groups: Sequence[object], wanted: int = RUNS) -> Answer:
    """Return an answer whose verdict needs so many runs in each group; before them nothing is decided."""
    fewest = min(map(len, groups))
    return Answer(about, said, verdict) if fewest >= wanted else Answer(about, said, OPEN, f"{fewest} of {wanted} runs")


def signs(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> list[tuple[float, int]]:
    """Return the p of a two-sided Mann-Whitney U test of each pair, with Holm's correction, and 1, -1 or 0.

    These say that the first of a pair is larger, smaller, or neither. A test without numbers finds nothing.
    """
    tests = [mann_whitney(*pair) if all(pair) else (1.0, False) for pair in pairs]
    corrected = holm([p for p, _ in tests])
    return [(p, 0 if p >= LEVEL else 1 if larger else -1) for p, (_, larger) in zip(corrected, tests, strict=True)]


def sign(first: Sequence[float], second: Sequence[float]) -> tuple[float, int]:
    """Return the same of one pair, which needs no correction."""
    return signs([(first, second)])[0]


def verdict_of(*signs: int) -> str:
    """Return the verdict on a claim that the first group is larger, in all of its tests."""
    return {1: REPRODUCED, 0: OPEN, -1: NOT_REPRODUCED}[min(signs)]


def verdict_of_count(count: int, most: int, few: int) -> str:
    """Return the verdict on a claim that so many runs have something."""
    return REPRODUCED if count >= most else NOT_REPRODUCED if count <= few else OPEN


def distance(groups: Groups, whose: str, robot: str) -> list[Answer]:
    """Compare the distances of both algorithms with those of standard ES."""
    found, es = [], column(groups[f"{whose}.{robot}.{ES}"], DISTANCE)
    for name in OURS:
        ours = column(groups[f"{whose}.{robot}.{name}"], DISTANCE)
        (p, which), interval = sign(es, ours), ratio(ours, es)
        inside = interval.low <= PAPER[robot][name] <= interval.high
        verdict = DIRECTION if which == 1 and not inside else verdict_of(which)
        found.append(answer(name, f"{interval}, p = {p:.2g}", verdict, ours, es))
    return found


def has_both(run: Row) -> bool:
    """Return whether a cheetah has both sides."""
    return number(run, "side_90_99") >= SIDE


def counted(groups: Groups, whose: str, robot: str, has: Callable[[Row], bool]) -> list[Answer]:
    """Count the runs that have both sides, or an even ring."""
    found = []
    for name in OURS:
        runs = groups[f"{whose}.{robot}.{name}"]
        count = sum(map(has, runs))
        found.append(answer(name, f"{count} of {len(runs)}", verdict_of_count(count, MOST, FEW), runs))
    return found


def reached(groups: Groups, whose: str) -> list[Answer]:
    """Return how many of 36 directions 1,000 individuals of the last generation reach; the plan has no rule for it."""
    found = []
    for name in OURS:
        values = column(groups[f"{whose}.ant.{name}"], "directions_last")
        said = f"{min(values):.0f} to {max(values):.0f} of 36"
        fewer = f"{len(values)} of {RUNS} runs, " * (len(values) < RUNS)
        found.append(Answer(name, said, OPEN, f"{fewer}no rule was planned"))
    return found


def near(groups: Groups, whose: str) -> list[Answer]:
    """Compare the ants' shares near the start with those of standard ES, which should be larger."""
    found, es = [], column(groups[f"{whose}.ant.{ES}"], NEAR)
    for name in OURS:
        ours = column(groups[f"{whose}.ant.{name}"], NEAR)
        p, which = sign(es, ours)
        said = f"{np.mean(ours):.1%} against {np.mean(es):.1%}, p = {p:.2g}".replace("%", " %")
        found.append(answer(name, said, verdict_of(which), ours, es))
    return found


def difference(groups: Groups, whose: str) -> list[Answer]:
    """Compare the distances of MaxVar with those of MaxEnt; no rule of the plan could show that they do not differ."""
    found = []
    for robot in PAPER:
        one, two = (column(groups[f"{whose}.{robot}.{name}"], DISTANCE) for name in OURS)
        p, which = sign(one, two)
        found.append(answer(robot, f"{ratio(one, two)}, p = {p:.2g}", NOT_REPRODUCED if which else OPEN, one, two))
    return found


def against_maml(each: Answer, maml: Sequence[Row]) -> Answer:
    """Return an answer that names MAML's runs; those of the first plan are too short to speak for a claim."""
    short = not planned(maml[0])
    limits = [*filter(None, [each.limit]), f"{len(maml)} runs of MAML", *["three tenths of the steps"] * short]
    verdict = OPEN if short and each.verdict == REPRODUCED else each.verdict
    return replace(each, verdict=verdict, limit=", ".join(limits))


def adaptation(groups: Groups, whose: str, rival: str) -> list[Answer]:
    """Compare how far MaxEnt gets by adaptation with MAML, or with MaxVar: from other starts, and from its own.

    Holm's correction is that of three tests; the third is of MaxVar and MAML.
    """
    found = []
    for start, key in READINGS:
        values = {name: column(groups[f"{whose}.cheetah.{name}"], key) for name in OURS}
        values["MAML"] = column(groups["MAML"], key)
        if not values[rival]:
            continue  # networks of MAML that are not kept say nothing about the own start
        tests = signs([(values[first], values[second]) for first, second in TESTED])
        p, which = dict(zip(TESTED, tests, strict=True))["MaxEnt", rival]
        said = f"{np.mean(values['MaxEnt']):.1f} against {np.mean(values[rival]):.1f}, p = {p:.2g}"
        each = answer(start, said, verdict_of(which), *(values[name] for name in ("MaxEnt", rival) if name != "MAML"))
        found.append(against_maml(each, groups["MAML"]) if rival == "MAML" else each)
    return found


def offspring(groups: Groups, whose: str) -> list[Answer]:
    """Compare distances, and their variance, of 1,000 mutations with those of MAML; also at a quarter of its std."""
    maml = [groups["offspring.MAML"], groups["quarter.MAML"]]
    ours = [groups[f"offspring.{whose}.{name}"] for name in OURS]
    pairs, words = [], []
    for key, name in (("distance_last", "distance"), ("distance_variance_last", "variance")):
        pairs += [(column(runs, key), column(theirs, key)) for runs in ours for theirs in maml]
        means = " and ".join(f"{np.mean(column(runs, key)):.0f}" for runs in ours)
        words.append(f"{name} {means} against {np.mean(column(maml[0], key)):.0f}")
    verdict = verdict_of(*(which for _, which in signs(pairs)))
    return [against_maml(answer("", "; ".join(words), verdict, *ours), maml[0])]


def seeding(groups: Groups, whose: str) -> list[Answer]:
    """Compare the mean x of standard ES after 5, 10 and 20 updates from a trained and from a random network."""
    random = groups[f"seeding.{whose}.random"]
    starts = {name: runs for name in OURS if (runs := groups[f"seeding.{whose}.{name}"])}
    keys = ("x_5", "x_10", "x_20")
    tests = signs([(column(runs, key), column(random, key)) for runs in starts.values() for key in keys])
    verdict, found = verdict_of(*(which for _, which in tests)), []
    for place, (name, runs) in enumerate(starts.items()):
        p = max(p for p, _ in tests[3 * place : 3 * place + 3])
        means = " against ".join(f"{np.mean(column(each, 'x_20')):.1f}" for each in (runs, random))
        found.append(answer(name, f"{means} after 20 updates, p at most {p:.2g}", verdict, runs, random))
    return found


def mixtures(groups: Groups, whose: str) -> list[tuple[str, str, Sequence[Row]]]:
    """Return the mixtures: the algorithm, it and the kind in words, and the runs; six of each, as in the paper."""
    found = []
    for name in OURS:
        for words, kind in (("two random networks", "mixture"), ("a split one", "split")):
            found.append((name, f"{name}, {words}", groups[f"{whose}.{kind}.{name}"]))
    return [each for each in found if each[2]]


def specialized(run: Row) -> bool:
    """Return whether places tell the network of a mutation, and both networks have left the start."""
    return number(run, "specialization_last") >= SPECIAL and number(run, "slower_last") >= FAR


def specialization(groups: Groups, whose: str) -> list[Answer]:
    """Count the mixtures whose components specialize."""
    found = []
    for _, words, runs in mixtures(groups, whose):
        count, values = sum(map(specialized, runs)), column(runs, "specialization_last")
        said = f"{count} of {len(runs)} (specialization {min(values):.2f} to {max(values):.2f})"
        found.append(answer(words, said, verdict_of_count(count, MOST_OF_SIX, FEW_OF_SIX), runs, wanted=SIX_RUNS))
    return found


def coverage(groups: Groups, whose: str) -> list[Answer]:
    """Compare how much space two components cover with the six runs of one network of the same seeds."""
    found, pairs = [], []
    for name, _, runs in mixtures(groups, whose):
        seeds = {row["seed"] for row in runs}
        alone = [row for row in groups[f"{whose}.ant.{name}"] if row["seed"] in seeds]
        pairs.append((column(runs, COVERED), column(alone, COVERED)))
    for (_, words, runs), pair, (p, _) in zip(mixtures(groups, whose), pairs, signs(pairs), strict=True):
        interval = ratio(*pair)
        alike = ALIKE[0] < interval.low and interval.high < ALIKE[1]
        verdict = REPRODUCED if alike else NOT_REPRODUCED if p < LEVEL else OPEN
        said = "{:.0f} cells against {:.0f} with one, p = {:.2g}".format(*map(np.mean, pair), p)
        found.append(answer(words, said, verdict, runs, wanted=SIX_RUNS))
    return found


def interference(groups: Groups, whose: str) -> list[Answer]:
    """Return where MaxVar and MaxEnt settle, and how many of the runs are at the best value."""
    settled = [x for name in OURS for x in column(groups[f"{whose}.interference.{name}"], "x_settled")]
    there = sum(abs(x - BEST) < 0.01 for x in settled)
    verdict = REPRODUCED if there == len(settled) else NOT_REPRODUCED
    return [Answer("", f"x = {np.mean(settled):.3f} in {there} of {len(settled)} runs", verdict)] if settled else []


def cell(answers: Sequence[Answer]) -> str:
    """Return a cell of the table: what each group says and its verdict, or one verdict behind all if it is the same."""
    if not answers:
        return "not run"
    said = [f"{each.about} {each.said}".strip() for each in answers]
    verdicts = [f"**{each.verdict}**" + f" ({each.limit})" * bool(each.limit) for each in answers]
    if len(set(verdicts)) == 1:
        return f"{'; '.join(said)}: {verdicts[0]}"
    return "; ".join(f"{words}: {verdict}" for words, verdict in zip(said, verdicts, strict=True))


GOES = "mutations of the {} go {} (MaxVar) and {} (MaxEnt) times as far as those of standard ES"
CLAIMS: list[tuple[Any, ...]] = [  # in words, the section of results.md, who answers, and with what more
    (GOES.format("cheetah", 0.92, 0.94), SIDES_LINK, distance, "cheetah"),
    ("they run to both sides", SIDES_LINK, counted, "cheetah", has_both),
    ("mutations of the ant reach nearly all directions", RING_LINK, reached),
    ("they form an even ring", RING_LINK, counted, "ant", has_ring),
    (GOES.format("ant", 0.85, 0.83), ANT_LINK, distance, "ant"),
    ("fewer of them stay near the start", ANT_LINK, near),
    ("MaxVar and MaxEnt do not differ in distance", ANT_LINK, difference),
    ("MaxEnt adapts better than MAML", MAML_LINK, adaptation, "MAML"),
    ("MaxEnt adapts better than MaxVar", MAML_LINK, adaptation, "MaxVar"),
    ("mutations end further away than those of MAML, and vary more", MAML_LINK, offspring),
    ("a trained network gives standard ES a head start", SEEDS_LINK, seeding),
    ("two networks that are trained together specialize", MIXED_LINK, specialization),
    ("they cover no more space than one", MIXED_LINK, coverage),
    ("on the interference task, training finds the best value, 7.854", MIXED_LINK, interference),
]


def table(groups: Groups) -> str:
    """Return the table of results.md: the claims of the paper, by the text's and by the released rules."""
    body = []
    for words, link, claim, *more in CLAIMS:
        body.append((f"[{words}](#{link})", *(cell(claim(groups, whose, *more)) for whose in RULES)))
    return lines(("the paper says", "the text's rules", "the released rules"), body)
