"""The claims of the paper: what the runs of plan6.md say to each, the verdicts, and the table of results.md.

The paper's ratios are those of the mean distance over that of standard ES. A verdict needs as many runs in each group
as the paper has, and six of MAML: `reproduced`, `in direction only` (of distances), `not reproduced`, or `not decided`.
A test decides against a claim if it finds the opposite, and nothing if it finds nothing. A claim of several tests needs
all of them, with Holm's correction. A count decides for a claim with ten runs of twelve (five of six), and against it
with six or fewer (two). Groups are alike if the interval of their ratio lies inside 0.8 to 1.25 (which is TOST).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from groups import (
    MAXENT,
    MAXVAR,
    PLANNED,
    RULES,
    Arms,
    Row,
    adapted,
    arms_of,
    column,
    maml_of,
    mixture_runs,
    number,
    offspring_of,
    seeding_runs,
    select,
    trainings,
)
from groups import STANDARD as ES
from page_tables import lines
from places import FAR
from rules import LEVEL, has_ring, mann_whitney, ratio

from ees_mpi.analysis.numbers.statistics import holm

RUNS = 12  # of a group in the paper
DISTANCE, NEAR = "distance_90_99", "near_origin_90_99"
SIDE = 0.05  # least share of the smaller side
MOST, FEW = 10, 6  # with so many of twelve runs a claim is reproduced; with so few it is not
SIX_RUNS, MOST_OF_SIX, FEW_OF_SIX = 6, 5, 2  # of mixtures
ALIKE = 0.8, 1.25  # a ratio whose interval lies inside these is none
REPRODUCED, DIRECTION, NOT_REPRODUCED, OPEN = "reproduced", "in direction only", "not reproduced", "not decided"
STDS = ("0.02", "0.005")  # of the mutations of MAML
SPECIAL = 0.5  # least specialization of two networks
BEST = 7.854  # of the interference task: 5 pi / 2
OURS = MAXVAR, MAXENT
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


def verdict_of(sign: int) -> str:
    """Return the verdict on a claim that the first group is larger."""
    return {1: REPRODUCED, 0: OPEN, -1: NOT_REPRODUCED}[sign]


def verdict_of_count(count: int, most: int, few: int) -> str:
    """Return the verdict on a claim that so many runs have something."""
    return REPRODUCED if count >= most else NOT_REPRODUCED if count <= few else OPEN


def distance(arms: Arms, rules: str, robot: str) -> list[Answer]:
    """Compare the distances of both algorithms with those of standard ES."""
    found, es = [], column(arms[rules, robot, ES], DISTANCE)
    for name in OURS:
        ours = column(arms[rules, robot, name], DISTANCE)
        (p, which), interval = sign(es, ours), ratio(ours, es)
        inside = interval.low <= PAPER[robot][name] <= interval.high
        verdict = DIRECTION if which == 1 and not inside else verdict_of(which)
        found.append(answer(name, f"{interval}, p = {p:.2g}", verdict, ours, es))
    return found


def has_both(run: Row) -> bool:
    """Return whether a cheetah has both sides."""
    return number(run, "side_90_99") >= SIDE


def counted(arms: Arms, rules: str, robot: str, has: Callable[[Row], bool]) -> list[Answer]:
    """Count the runs that have both sides, or an even ring."""
    found = []
    for name in OURS:
        runs = arms[rules, robot, name]
        count = sum(map(has, runs))
        found.append(answer(name, f"{count} of {len(runs)}", verdict_of_count(count, MOST, FEW), runs))
    return found


def reached(arms: Arms, rules: str) -> list[Answer]:
    """Return how many of 36 directions 1,000 individuals of the last generation reach; the plan has no rule for it."""
    found = []
    for name in OURS:
        values = column(arms[rules, "ant", name], "directions_last")
        said = f"{min(values):.0f} to {max(values):.0f} of 36"
        fewer = f"{len(values)} of {RUNS} runs, " * (len(values) < RUNS)
        found.append(Answer(name, said, OPEN, f"{fewer}no rule was planned"))
    return found


def near(arms: Arms, rules: str) -> list[Answer]:
    """Compare the ants' shares near the start with those of standard ES, which should be larger."""
    found, es = [], column(arms[rules, "ant", ES], NEAR)
    for name in OURS:
        ours = column(arms[rules, "ant", name], NEAR)
        p, which = sign(es, ours)
        said = f"{np.mean(ours):.1%} against {np.mean(es):.1%}, p = {p:.2g}".replace("%", " %")
        found.append(answer(name, said, verdict_of(which), ours, es))
    return found


def difference(arms: Arms, rules: str) -> list[Answer]:
    """Compare the distances of MaxVar with those of MaxEnt; that they do not differ, no test can show."""
    found = []
    for robot in PAPER:
        one, two = (column(arms[rules, robot, name], DISTANCE) for name in OURS)
        p, which = sign(one, two)
        found.append(answer(robot, f"{ratio(one, two)}, p = {p:.2g}", NOT_REPRODUCED if which else OPEN, one, two))
    return found


def all_larger(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> tuple[str, list[float]]:
    """Return the verdict on a claim that the first of each pair is larger; each p has Holm's correction."""
    found = signs(pairs)
    return verdict_of(min(which for _, which in found)), [p for p, _ in found]


def against_maml(each: Answer, maml: Sequence[Row]) -> Answer:
    """Return an answer that names MAML's runs; those of the first plan are too short to speak for a claim."""
    short = int(maml[0]["seed"]) < PLANNED
    limits = [*filter(None, [each.limit]), f"{len(maml)} runs of MAML", *["three tenths of the steps"] * short]
    verdict = OPEN if short and each.verdict == REPRODUCED else each.verdict
    return replace(each, verdict=verdict, limit=", ".join(limits))


def adaptation(rows: Sequence[Row], whose: str, rival: str) -> list[Answer]:
    """Compare how far MaxEnt gets by adaptation with MAML, or with MaxVar: from other starts, and from its own.

    Holm's correction is that of three tests; the third is of MaxVar and MAML.
    """
    arms, found = adapted(rows), []
    runs = {name: arms.get((whose, "cheetah", name), []) for name in OURS} | {"MAML": maml_of(rows)}
    for start, key in READINGS:
        values = {name: column(each, key) for name, each in runs.items()}
        if not values[rival]:
            continue  # networks of MAML that are not kept say nothing about the own start
        tests = signs([(values[first], values[second]) for first, second in TESTED])
        p, which = tests[TESTED.index((MAXENT, rival))]
        said = f"{np.mean(values[MAXENT]):.1f} against {np.mean(values[rival]):.1f}, p = {p:.2g}"
        groups = [runs[name] for name in (MAXENT, rival) if name != "MAML"]
        each = answer(start, said, verdict_of(which), *groups)
        found.append(against_maml(each, runs["MAML"]) if rival == "MAML" else each)
    return found


def offspring(rows: Sequence[Row], whose: str) -> list[Answer]:
    """Compare distances, and their variance, of 1,000 mutations with those of MAML; also at a quarter of its sd."""
    maml = [offspring_of(rows, "MAML", std=std) for std in STDS]
    ours = [offspring_of(rows, name, whose) for name in OURS]
    pairs, words = [], []
    for key, name in (("distance_last", "distance"), ("distance_variance_last", "variance")):
        groups = [column(group, key) for group in ours]
        pairs += [(group, column(those, key)) for group in groups for those in maml]
        means = " and ".join(f"{np.mean(group):.0f}" for group in groups)
        words.append(f"{name} {means} against {np.mean(column(maml[0], key)):.0f}")
    return [against_maml(answer("", "; ".join(words), all_larger(pairs)[0], *ours), maml[0])]


def seeding(rows: Sequence[Row], whose: str) -> list[Answer]:
    """Compare the mean x of standard ES after 5, 10 and 20 updates from a trained and from a random network."""
    starts = seeding_runs(rows, whose)
    names = [name for name in OURS if name in starts]
    pairs = [tuple(column(starts[each], f"x_{n}") for each in (name, "random")) for name in names for n in (5, 10, 20)]
    verdict, p = all_larger(pairs)
    found = []
    for place, name in enumerate(names):
        said = "{:.1f} against {:.1f}".format(*(np.mean(values) for values in pairs[3 * place + 2]))
        said += f" after 20 updates, p at most {max(p[3 * place : 3 * place + 3]):.2g}"
        found.append(answer(name, said, verdict, starts[name], starts["random"]))
    return found


def mixtures(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the mixtures by algorithm and kind in words; six runs each, as in the paper."""
    kinds = {"two random means": "mixture", "a split mean": "split"}
    return {
        f"{name}, {words}": runs
        for name in OURS
        for words, kind in kinds.items()
        if (runs := select(mixture_runs(rows, kind), algorithm=name))
    }


def specialized(run: Row) -> bool:
    """Return whether places tell the network of a mutation, and both networks have left the start."""
    return number(run, "specialization_last") >= SPECIAL and number(run, "slower_last") >= FAR


def specialization(rows: Sequence[Row]) -> list[Answer]:
    """Count the mixtures whose components specialize."""
    found = []
    for words, runs in mixtures(rows).items():
        count, values = sum(map(specialized, runs)), column(runs, "specialization_last")
        said = f"{min(values):.2f} to {max(values):.2f}, with both beyond {FAR:.0f} units {count} of {len(runs)}"
        found.append(answer(words, said, verdict_of_count(count, MOST_OF_SIX, FEW_OF_SIX), runs, wanted=SIX_RUNS))
    return found


def coverage(rows: Sequence[Row]) -> list[Answer]:
    """Compare how much space two components cover with the six runs of one network of the same seeds."""
    groups, pairs = mixtures(rows), []
    for words, runs in groups.items():
        seeds = {row["seed"] for row in runs}
        alone = [row for row in trainings(rows, "ant", words.split(",")[0], "text") if row["seed"] in seeds]
        pairs.append((column(runs, "coverage_last_10"), column(alone, "coverage_last_10")))
    found: list[Answer] = []
    for (words, runs), pair, (p, _) in zip(groups.items(), pairs, signs(pairs), strict=True):
        interval = ratio(pair[0], pair[1])
        alike = ALIKE[0] < interval.low and interval.high < ALIKE[1]
        verdict = REPRODUCED if alike else NOT_REPRODUCED if p < LEVEL else OPEN
        said = "{:.0f} cells against {:.0f} with one, p = {:.2g}".format(*map(np.mean, pair), p)
        found.append(answer(words, said, verdict, runs, wanted=SIX_RUNS))
    return found


def interference(rows: Sequence[Row]) -> list[Answer]:
    """Return where MaxVar and MaxEnt settle, and how many of the runs are at the best value."""
    settled = column(select(rows, robot="interference", generations="6000"), "x_settled")
    there = sum(abs(x - BEST) < 0.01 for x in settled)
    verdict = REPRODUCED if there == len(settled) else NOT_REPRODUCED
    return [Answer("", f"x = {np.mean(settled):.3f} in {there} of {len(settled)} runs", verdict)]


def cell(answers: Sequence[Answer]) -> str:
    """Return a cell of the table: what each group says, then the verdicts, once if they are the same."""
    if not answers:
        return "not run"
    said = "; ".join(f"{each.about} {each.said}".strip() for each in answers)
    limits = list(dict.fromkeys(each.limit for each in answers))
    if len({each.verdict for each in answers}) == 1 and (all(limits) or limits == [""]):
        return f"{said}: **{answers[0].verdict}**" + f" ({', '.join(limits)})" * all(limits)
    ends = [f"{each.about} **{each.verdict}**" + f" ({each.limit})" * bool(each.limit) for each in answers]
    return f"{said}: {', '.join(ends)}"


def table(rows: Sequence[Row]) -> str:
    """Return the table of results.md: the claims of the paper, by the text's and by the released rules."""
    arms, both = arms_of(rows), tuple(RULES)
    goes = "mutations of the {} go {} (MaxVar) and {} (MaxEnt) times as far as those of standard ES"
    body = [
        (goes.format("cheetah", 0.92, 0.94), SIDES_LINK, [distance(arms, whose, "cheetah") for whose in both]),
        ("they run to both sides", SIDES_LINK, [counted(arms, whose, "cheetah", has_both) for whose in both]),
        ("mutations of the ant reach nearly all directions", RING_LINK, [reached(arms, whose) for whose in both]),
        ("they form a ring", RING_LINK, [counted(arms, whose, "ant", has_ring) for whose in both]),
        (goes.format("ant", 0.85, 0.83), ANT_LINK, [distance(arms, whose, "ant") for whose in both]),
        ("fewer of them stay near the start", ANT_LINK, [near(arms, whose) for whose in both]),
        ("MaxVar and MaxEnt do not differ in distance", ANT_LINK, [difference(arms, whose) for whose in both]),
        ("MaxEnt adapts better than MAML", MAML_LINK, [adaptation(rows, whose, "MAML") for whose in both]),
        ("MaxEnt adapts better than MaxVar", MAML_LINK, [adaptation(rows, whose, "MaxVar") for whose in both]),
        ("mutations end further away than those of MAML, and vary more", MAML_LINK, [offspring(rows, w) for w in both]),
        ("a trained network gives standard ES a head start", SEEDS_LINK, [seeding(rows, whose) for whose in both]),
        ("two means that are trained together specialize", MIXED_LINK, [specialization(rows), []]),
        ("they cover no more space than one", MIXED_LINK, [coverage(rows), []]),
        ("on the interference task, training finds the best value, 7.854", MIXED_LINK, [interference(rows), []]),
    ]
    head = ("the paper says", "the text's rules", "the released rules")
    return lines(head, [(f"[{words}](#{link})", *map(cell, cells)) for words, link, cells in body])
