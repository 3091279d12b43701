"""The first plan: the paper's claims on the runs of numbers.csv, their tests, verdicts and tables.

A difference is tested by Mann-Whitney U, two-sided. That two groups do not differ is tested by Welch's two one-sided
tests (TOST; Schuirmann 1987) on the logarithms of the numbers: is their ratio inside the margin? Holm's correction runs
over the tests of one claim. results/tests.md has the rules, fixed before the runs, and plans.toml the claims.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from endpoints import Row, lines, number, select
from plan import WORK
from rules import LEVEL, Interval, ratio

from ees_mpi.analysis.numbers import tables
from ees_mpi.analysis.numbers.statistics import Group, Test, compare, holm

SEEDS = 6
HOLDS, FAILS, OPEN = "holds", "does not hold", "not decided"
COLUMNS = {  # of numbers.csv
    **{f"after {updates}": f"x_{updates}" for updates in (5, 10, 20)},
    **{f"{sample} distance": "distance_last" for sample in ("sample", "sample-quarter")},
    **{f"{sample} variance": "distance_variance_last" for sample in ("sample", "sample-quarter")},
    **{name: f"{name}_20_29" for name in ("near_origin", "coverage", "balance")},
    "distance_mean": "distance_20_29",
    "direction_uniformity": "uniformity_20_29",
}


@dataclass(frozen=True)
class Question:
    """Is the first group above the second (>), below it (<), or equal to it (=)?"""

    metric: str
    first: Group
    relation: str
    second: Group


@dataclass(frozen=True)
class Answer:
    """A test of a claim, with Holm's correction."""

    question: Question
    test: Test  # Mann-Whitney U
    interval: Interval
    p_equal: float  # of TOST

    @property
    def verdict(self) -> str:
        """The verdict of the plan on this test."""
        relation, differ, same = self.question.relation, self.test.holm < LEVEL, self.p_equal < LEVEL
        if relation == "=":
            return HOLDS if same else FAILS if differ else OPEN
        if differ and (self.test.effect > 0.5) == (relation == ">"):
            return HOLDS
        return FAILS if differ or same else OPEN

    @property
    def p(self) -> float:
        """The p that the table of claims shows."""
        return self.p_equal if self.question.relation == "=" else self.test.holm


def judge(questions: Sequence[Question]) -> list[Answer]:
    """Answer the questions of one claim."""
    pairs = [(each.first, each.second) for each in questions]
    found = [ratio(first.values, second.values) for first, second in pairs]
    corrected = holm([each.p_equal for each in found])
    return [Answer(*each) for each in zip(questions, compare(pairs), found, corrected, strict=True)]


def overall(answers: Sequence[Answer]) -> str:
    """Return the verdict on a claim: it holds if all of its tests hold, and not if one of them does not."""
    found = {answer.verdict for answer in answers}
    return FAILS if FAILS in found else HOLDS if found == {HOLDS} else OPEN


@dataclass(frozen=True)
class Result:
    """A claim with the answers that the runs give."""

    claim: dict[str, str]  # of plans.toml
    groups: dict[str, Group]  # by metric and name: the numbers of the runs
    answers: list[Answer]  # of the tests whose groups have runs

    @property
    def fewest(self) -> int:
        """The number of runs of the smallest group that the claim needs."""
        return min(len(group.values) for group in self.groups.values())

    @property
    def complete(self) -> bool:
        """Whether all groups have all seeds; p and verdict wait for it."""
        return self.fewest >= SEEDS

    @property
    def verdict(self) -> str:
        """The verdict of the plan, which waits for all seeds."""
        if not any(len(group.values) for group in self.groups.values()):
            return "not run"
        return overall(self.answers) if self.complete else f"{OPEN} ({self.fewest} of {SEEDS} runs)"


def value(row: Row, metric: str) -> float:
    """Return the endpoint of a run: its mean over generations 20 to 29, or over its last ten if it has fewer."""
    if metric == "adaptation":
        return (number(row, "adapt_left") + number(row, "adapt_right")) / 2
    late = number(row, COLUMNS[metric])
    return late if math.isfinite(late) else number(row, COLUMNS[metric].replace("_20_29", "_last_10"))


def examine(rows: Sequence[Row]) -> list[Result]:
    """Return each claim with what the runs say."""
    found = []
    for claim in WORK["claims"]:
        groups: dict[str, Group] = {}
        questions = []
        for metric, _, words in (test.partition(": ") for test in claim["tests"]):
            first, relation, second = words.split()
            for name in (first, second):
                numbers = values(rows, claim["name"].partition("-")[0], name, metric, against=name == second)
                groups[f"{metric} {name}"] = Group(WORK["groups"][name]["label"], numbers)
            pair = groups[f"{metric} {first}"], groups[f"{metric} {second}"]
            if all(len(group.values) for group in pair):
                questions.append(Question(metric, pair[0], relation, pair[1]))
        found.append(Result(claim, groups, judge(questions) if questions else []))
    return found


def values(rows: Sequence[Row], robot: str, name: str, metric: str, against: bool) -> np.ndarray:
    """Return the endpoints of all seeds of a group."""
    wanted = {"robot": robot, "engine": "mujoco", "rules": "text", **WORK["groups"][name]}
    del wanted["label"]
    size, lengths = "10000", ("20", "21", "30")
    if metric.startswith("sample"):  # with a quarter of the std only MAML is sampled
        quarter = against and metric.startswith("sample-quarter")
        wanted |= {"kind": "sample", "std": "0.005" if quarter else "0.02"}
        size, lengths = "1000", ("1",)
    elif name == "maml":
        size, lengths = "40", ("375",)  # tasks and iterations
    chosen = select(rows, population=size, **wanted)
    chosen = [row for row in chosen if row["generations"] in lengths and int(row["seed"]) < SEEDS]
    found = np.array([value(row, metric) for row in chosen])
    return found[np.isfinite(found)]


def claim_table(found: Sequence[Result]) -> str:
    """Return the table of claims: one short line for each."""
    rows = []
    for each in found:
        counts = ", ".join(dict.fromkeys(f"{len(group.values)}" for group in each.groups.values()))
        p = " / ".join(f"{answer.p:.2g}" for answer in each.answers) if each.complete else "-"
        rows.append((each.claim["text"], each.claim["paper"], _here(each), counts, p, each.verdict))
    return lines(("claim", "paper", "here", "n", "p", "verdict"), rows)


def _here(result: Result) -> str:
    """Return the means of the groups, in a few words."""
    by_metric: dict[str, list[str]] = {}
    for key, group in result.groups.items():
        if len(group.values):
            mean = tables.number(float(group.values.mean()))
            by_metric.setdefault(key.rsplit(" ", 1)[0], []).append(f"{group.label} {mean}")
    several = len(by_metric) > 1
    words = [(f"{metric}: " if several else "") + ", ".join(parts) for metric, parts in by_metric.items()]
    return "; ".join(words) or "-"


def all_tests(found: Sequence[Result]) -> str:
    """Return the table of all tests: means, ratio with its interval, p of both tests, verdict."""
    head = ("claim", "test", "n", "ratio, 90 % interval", "p (Mann-Whitney)", "Holm", "TOST", "verdict")
    rows = []
    for each in found:
        for answer in each.answers:
            asked, equal = answer.question, answer.interval
            test = f"{asked.metric}: {asked.first.label} {asked.relation} {asked.second.label}"
            sizes = f"{len(asked.first.values)}, {len(asked.second.values)}"
            shown = f"{'' if equal.is_ratio else 'difference '}{equal.value:.3g}"
            shown += "" if math.isnan(equal.low) else f" ({equal.low:.3g} to {equal.high:.3g})"
            tost = f"{answer.p_equal:.2g}" if equal.is_ratio else "-"
            numbers = (f"{answer.test.p:.2g}", f"{answer.test.holm:.2g}", tost, answer.verdict)
            rows.append(
                (each.claim["name"], test, sizes, shown, *(numbers if each.complete else ("-", "-", "-", each.verdict)))
            )
    return lines(head, rows)
