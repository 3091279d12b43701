#!/usr/bin/env python3
"""The claims of the paper: endpoints of the runs of plan6.md, verdicts, and the table of results.md.

    python jobs/paper/claims.py          each run of the text's and of the released rules, and the claims

The paper's ratios are those of the mean distance over that of standard ES. A verdict needs as many runs in each group
as the paper has: `reproduced`, `in direction only` (of distances), `not reproduced`, or `not decided`. A test decides
against a claim if it finds the opposite, and nothing if it finds nothing. A count decides for a claim with ten runs of
twelve, and against it with six or fewer.

Claims on which the sixth plan has fewer runs than an earlier one keep the runs of that one, and its verdict, where it
had a rule for its six runs; the table says so. The first plan (84d91313:ees_mpi/docs/reproduce.md) has the text's rules
and 30 generations: a claim needs all of its tests, with Holm's correction, and groups do not differ if the interval of
their ratio lies inside 0.8 to 1.25 (which is TOST). The second (5cf434a9, the same page) has the released rules and 100
generations: MaxEnt's ring holds with at least 5 of 6 runs, and fails with at most 2.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from endpoints import Row, column, lines, number, read, select, trainings
from page_tables import adaptation_groups, adapted, seeding_runs
from places import FAR
from rules import LEVEL, RING, mann_whitney, ratio

from ees_mpi.analysis.numbers.statistics import holm

HERE = Path(__file__).parent
RUNS, GENERATIONS = 12, "100"  # of a group in the paper
PLANNED = 20  # the first seed of the plan
DISTANCE, NEAR = "distance_90_99", "near_origin_90_99"
SHOWN = {  # endpoints of a run
    DISTANCE: "distance",
    NEAR: "near the start",
    "side_90_99": "smaller side",
    "evenness_90_99": "evenness of the ring",
    "directions_last": "directions of 36",
}
SIDE = 0.05  # least share of the smaller side
MOST, FEW = 10, 6  # with so many of twelve runs a claim is reproduced; with so few it is not
EARLIER = 6  # runs of a group in an earlier plan
MOST_EARLIER, FEW_EARLIER = 5, 2  # of them
ALIKE = 0.8, 1.25  # a ratio whose interval lies inside these is none
FIRST = "by the first plan: 6 runs, up to 30 generations"
SECOND = "by the second plan: 6 runs, 100 generations"
REPRODUCED, DIRECTION, NOT_REPRODUCED, OPEN = "reproduced", "in direction only", "not reproduced", "not decided"
STDS = ("0.02", "0.005")  # of the mutations of MAML
BEST = 7.854  # of the interference task: 5 pi / 2
ES, OURS = "standard ES", ("MaxVar", "MaxEnt")
PAPER = {"cheetah": {"MaxVar": 0.921, "MaxEnt": 0.939}, "ant": {"MaxVar": 0.854, "MaxEnt": 0.832}}
SIDES_LINK = "do-the-cheetahs-mutations-run-far-and-to-both-sides"  # sections of results.md
RING_LINK, ANT_LINK = "is-there-a-ring-around-the-ant", "how-far-does-the-ant-walk"
MAML_LINK, SEEDS_LINK = "does-it-adapt-better-than-maml", "does-it-give-standard-es-a-head-start"
MIXED_LINK = "mixtures-and-interference"


Arms = dict[tuple[str, str, str], list[Row]]  # the runs by rules, robot and algorithm


@dataclass(frozen=True)
class Answer:
    """What some runs say to a claim, in words, with the verdict, and what limits it."""

    about: str  # MaxVar, MaxEnt, or a robot
    said: str
    verdict: str
    limit: str = ""


def arms_of(rows: Sequence[Row]) -> Arms:
    """Return the trainings of 100 generations: those of the plan, or of earlier plans while it has fewer in an arm."""
    found: Arms = {}
    for rules, robot, name in itertools.product(("text", "released"), PAPER, (ES, *OURS)):
        runs = [row for row in trainings(rows, robot, name, rules) if row["generations"] == GENERATIONS]
        planned = [row for row in runs if int(row["seed"]) >= PLANNED]
        earlier = [row for row in runs if int(row["seed"]) < PLANNED]
        found[rules, robot, name] = max(planned, earlier, key=len)
    return found


def answer(about: str, said: str, verdict: str, *groups: Sequence[object]) -> Answer:
    """Return an answer whose verdict needs twelve runs in each group; before them nothing is decided."""
    fewest = min(map(len, groups))
    return Answer(about, said, verdict) if fewest >= RUNS else Answer(about, said, OPEN, f"{fewest} of {RUNS} runs")


def sign(first: Sequence[float], second: Sequence[float]) -> tuple[float, int]:
    """Return the p of a two-sided Mann-Whitney U test, and 1, -1 or 0: the first is larger, smaller, or neither."""
    p, larger = mann_whitney(first, second)
    return p, 0 if p >= LEVEL else 1 if larger else -1


def verdict_of(sign: int) -> str:
    """Return the verdict on a claim that the first group is larger."""
    return {1: REPRODUCED, 0: OPEN, -1: NOT_REPRODUCED}[sign]


def verdict_of_count(count: int, most: int, few: int) -> str:
    """Return the verdict on a claim that so many runs have something."""
    return REPRODUCED if count >= most else NOT_REPRODUCED if count <= few else OPEN


def same(sign: int) -> str:
    """Return the verdict on a claim that two groups do not differ, which no test can show."""
    return NOT_REPRODUCED if sign else OPEN


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


def has_ring(run: Row) -> bool:
    """Return whether an ant has an even ring."""
    return number(run, "evenness_90_99") >= RING and number(run, DISTANCE) >= FAR


def counted(arms: Arms, rules: str, robot: str, has: Callable[[Row], bool]) -> list[Answer]:
    """Count the runs that have both sides, or an even ring."""
    found = []
    for name in OURS:
        runs = arms[rules, robot, name]
        count, said = sum(map(has, runs)), f"{sum(map(has, runs))} of {len(runs)}"
        if (rules, robot, name) == ("released", "ant", "MaxEnt") and len(runs) == EARLIER:
            found.append(Answer(name, said, verdict_of_count(count, MOST_EARLIER, FEW_EARLIER), SECOND))
        else:
            found.append(answer(name, said, verdict_of_count(count, MOST, FEW), runs))
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
    """Compare the distances of MaxVar with those of MaxEnt."""
    found = []
    for robot in PAPER:
        one, two = (column(arms[rules, robot, name], DISTANCE) for name in OURS)
        p, which = sign(one, two)
        found.append(answer(robot, f"{ratio(one, two)}, p = {p:.2g}", same(which), one, two))
    return found


Pair = tuple[Sequence[float], Sequence[float]]


def all_larger(pairs: Sequence[Pair]) -> tuple[str, list[float]]:
    """Return the verdict on a claim that the first of each pair is larger; each p has Holm's correction."""
    tests = [mann_whitney(*pair) for pair in pairs]
    corrected = holm([p for p, _ in tests])
    signs = {0 if p >= LEVEL else 1 if larger else -1 for p, (_, larger) in zip(corrected, tests, strict=True)}
    return verdict_of(-1 if -1 in signs else min(signs)), corrected


def planned(about: str, said: str, verdict: str, rules: str, *groups: Sequence[object]) -> Answer:
    """Return an answer by the first plan, whose runs have the text's rules; the released ones had no rule."""
    fewest = min(map(len, groups))
    if rules == "text" and fewest == EARLIER:
        return Answer(about, said, verdict, FIRST)
    return answer(about, said, verdict, *groups)


def adaptation(rows: Sequence[Row], whose: str, rival: str) -> list[Answer]:
    """Compare how far MaxEnt gets by adaptation with MAML, after equal steps, or with MaxVar.

    The first plan has a third test, of MaxVar and MAML, to which Holm's correction belongs, too.
    """
    groups = {key: adapted(runs) for key, runs in adaptation_groups(rows).items()}
    steps = "30" if whose == "text" or rival == "MAML" else "100"
    maml, maxvar = groups["-", "MAML", "375"], groups[whose, "MaxVar", steps]
    ours, theirs = groups[whose, "MaxEnt", steps], maml if rival == "MAML" else maxvar
    p, which = sign(ours, theirs)
    if whose == "text":
        (corrected, *_) = holm([p, sign(ours, maxvar if rival == "MAML" else maml)[0], sign(maxvar, maml)[0]])
        p, which = corrected, which if corrected < LEVEL else 0
    said = f"{np.mean(ours):.1f} against {np.mean(theirs):.1f} after {steps} generations, p = {p:.2g}"
    return [planned("", said, verdict_of(which), whose, ours, theirs)]


def offspring(rows: Sequence[Row], whose: str) -> list[Answer]:
    """Compare distances, and their variance, of 1,000 mutations with those of MAML; also at a quarter of its sd."""
    sampled = select(rows, robot="cheetah", kind="sample", engine="mujoco", population="1000")
    maml = [[row for row in sampled if row["algorithm"] == "MAML" and row["std"] == std] for std in STDS]
    ours = [select(sampled, algorithm=each, rules=whose, std=STDS[0]) for each in OURS]
    pairs, words = [], []
    for key, name in (("distance_last", "distance"), ("distance_variance_last", "variance")):
        groups = [column(group, key) for group in ours]
        pairs += [(group, column(those, key)) for group in groups for those in maml]
        means = " and ".join(f"{np.mean(group):.0f}" for group in groups)
        words.append(f"{name} {means} against {np.mean(column(maml[0], key)):.0f}")
    words[-1] += f" after {'30' if whose == 'text' else '100'} generations"
    return [planned("", "; ".join(words), all_larger(pairs)[0], whose, *maml, *ours)]


def seeding(rows: Sequence[Row], whose: str) -> list[Answer]:
    """Compare the mean x of standard ES after 5, 10 and 20 updates from a trained and from a random network."""
    first = "gentle" if whose == "text" else "full"
    starts = {start: runs for (start, how), runs in seeding_runs(rows, whose).items() if how == first}
    names = [name for name in OURS if name in starts]
    pairs = [tuple(column(starts[each], f"x_{n}") for each in (name, "random")) for name in names for n in (5, 10, 20)]
    verdict, p = all_larger(pairs)
    found = []
    for place, name in enumerate(names):
        said = "{:.1f} against {:.1f}".format(*(np.mean(values) for values in pairs[3 * place + 2]))
        said += f" after 20 updates, p at most {max(p[3 * place : 3 * place + 3]):.2g}"
        found.append(planned(name, said, verdict, whose, starts[name], starts["random"]))
    return found


def mixtures(rows: Sequence[Row], key: str) -> list[Answer]:
    """Return how two components specialize, or how much space they cover against one; the text's rules."""
    one = trainings(rows, "ant", "MaxEnt", "text")
    alone = column([row for row in one if row["generations"] == "30"], "coverage_last_10")
    kinds = {"two random means": "mixture", "a split mean": "split"}
    groups = {words: column(select(rows, robot="ant", kind=kind, rules="text"), key) for words, kind in kinds.items()}
    if key == "specialization_last":
        said = {words: f"{min(values):.2f} to {max(values):.2f}" for words, values in groups.items()}
        return [Answer(words, each, OPEN, "6 runs, no rule was planned") for words, each in said.items()]
    found, corrected = [], holm([mann_whitney(values, alone)[0] for values in groups.values()])
    for (words, values), p in zip(groups.items(), corrected, strict=True):
        interval = ratio(values, alone)
        alike = ALIKE[0] < interval.low and interval.high < ALIKE[1]
        verdict = REPRODUCED if alike else NOT_REPRODUCED if p < LEVEL else OPEN
        said = f"{np.mean(values):.0f} cells against {np.mean(alone):.0f} with one, p = {p:.2g}"
        found.append(Answer(words, said, verdict, FIRST))
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
    ends = [f"**{each.verdict}**{f' ({each.limit})' * bool(each.limit)}" for each in answers]
    if len(set(ends)) == 1:
        return f"{said}: {ends[0]}"
    return f"{said}: " + ", ".join(f"{each.about} {end}" for each, end in zip(answers, ends, strict=True))


def table(arms: Arms, rows: Sequence[Row]) -> str:
    """Return the table of results.md: the claims of the paper, by the text's and by the released rules."""
    both = ("text", "released")
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
        ("two means that are trained together specialize", MIXED_LINK, [mixtures(rows, "specialization_last"), []]),
        ("they cover no more space than one", MIXED_LINK, [mixtures(rows, "coverage_last_10"), []]),
        ("on the interference task, training finds the best value, 7.854", MIXED_LINK, [interference(rows), []]),
    ]
    head = ("the paper says", "the text's rules", "the released rules")
    return lines(head, [(f"[{words}](#{link})", *map(cell, cells)) for words, link, cells in body])


def report(arms: Arms) -> str:
    """Return the tables of all runs, by rules and robot; the last line of an arm has the means."""
    found = []
    for (rules, robot, name), runs in arms.items():
        shown = [[row["run"], *(f"{number(row, key):.3g}" for key in SHOWN)] for row in runs]
        means = [f"{np.mean([number(row, key) for row in runs]):.3g}" for key in SHOWN]
        rows = [[cell.replace("nan", "") for cell in row] for row in [*shown, [f"**mean of {len(runs)}**", *means]]]
        found.append(f"## {robot}, {rules} rules, {name}\n\n{lines(('run', *SHOWN.values()), rows)}")
    return "\n".join(found)


if __name__ == "__main__":
    everything = read(HERE / "results" / "numbers.csv")
    print(report(arms_of(everything)), table(arms_of(everything), everything), sep="\n")
