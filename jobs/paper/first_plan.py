"""The first plan: the paper's claims on the runs of numbers.csv, their tests, verdicts and tables.

A difference is tested by Mann-Whitney U, two-sided. That two groups do not differ is tested by Welch's two one-sided
tests (TOST; Schuirmann 1987) on the logarithms of the numbers: is their ratio inside the margin? Holm's correction runs
over the tests of one claim. results/tests.md has the rules, which were fixed before the runs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from endpoints import Row, lines, number, select
from rules import LEVEL, Interval, ratio

from ees_mpi.analysis.numbers import tables
from ees_mpi.analysis.numbers.statistics import Group, Test, compare, holm

SEEDS = 6
HOLDS, FAILS, OPEN = "holds", "does not hold", "not decided"
SIGNS = {"above": ">", "below": "<", "equal": "="}
Part = tuple[str, str, str, str]  # metric, first group, relation, second group


def both(metric: str, relation: str, against: str, ending: str = "") -> tuple[Part, ...]:
    """Return the tests of MaxVar and of MaxEnt."""
    return tuple((metric, f"{each}{ending}", relation, against) for each in ("maxvar", "maxent"))


@dataclass(frozen=True)
class Claim:
    """A claim of the paper: its name in the plan, its words, the paper's numbers, and its tests."""

    name: str
    text: str
    paper: str
    parts: tuple[Part, ...]


SPREAD = "ant: offspring walk in all directions (direction uniformity)"
SEEDING = "ant: a trained mean speeds up standard ES (mean x after 5, 10, 20 updates)"
NEAR = "ant: more offspring of standard ES end within 5 units"
ADAPTS = "cheetah: MaxEnt adapts better than MAML and MaxVar; MaxVar as MAML"
VARY = "cheetah: EES offspring end further away and vary more than MAML's"
EQUAL = (("distance_mean", "maxvar", "equal", "maxent"),)
AFTER = tuple(part for g in (5, 10, 20) for part in both(f"after {g}", "above", "adapt-gentle", "-further"))
SAMPLES = [f"{ending} {metric}" for ending in ("sample", "sample-quarter") for metric in ("distance", "variance")]
OFFSPRING = tuple(part for metric in SAMPLES for part in both(metric, "above", "maml"))
ADAPTATION = tuple(
    ("adaptation", *each)
    for each in (("maxent", "above", "maml"), ("maxent", "above", "maxvar"), ("maxvar", "equal", "maml"))
)
MIXTURES = tuple(("coverage", name, "equal", "maxent") for name in ("maxent-mixture", "maxent-split"))
CLAIMS = (
    Claim("ant-directions", SPREAD, "a ring", both("direction_uniformity", "above", "es")),
    Claim("ant-distance", "ant: standard ES moves further", "85 %, 83 %", both("distance_mean", "below", "es")),
    Claim("ant-equal", "ant: MaxVar and MaxEnt move equally far", "p > 0.1", EQUAL),
    Claim("ant-origin", NEAR, "p < 0.01", both("near_origin", "below", "es")),
    Claim("ant-seeding", SEEDING, "p < 0.0005", AFTER),
    Claim(
        "cheetah-sides", "cheetah: offspring run left and right (balance)", "two sides", both("balance", "above", "es")
    ),
    Claim("cheetah-distance", "cheetah: standard ES moves further", "92 %, 94 %", both("distance_mean", "below", "es")),
    Claim("cheetah-equal", "cheetah: MaxVar and MaxEnt move equally far", "p > 0.1", EQUAL),
    Claim("cheetah-adaptation", ADAPTS, "p < 0.005, < 0.05, > 0.1", ADAPTATION),
    Claim("cheetah-offspring", VARY, "p < 0.00005", OFFSPRING),
    Claim("ant-mixtures", "ant: two components cover no more than one mean", "p > 0.1", MIXTURES),
)
TRAINING, GENTLE = {"kind": "training"}, {"kind": "seeding", "first_steps": "gentle"}
GROUPS: dict[str, tuple[str, dict[str, str]]] = {  # the words for each group, and the facts of its runs
    "es": ("standard ES", {"algorithm": "standard ES", "direction": "0", **TRAINING}),
    **{name.lower(): (name, {"algorithm": name, **TRAINING}) for name in ("MaxVar", "MaxEnt", "MAML")},
    **{f"{name.lower()}-further": (f"from {name}", {"start": name, **GENTLE}) for name in ("MaxVar", "MaxEnt")},
    "adapt-gentle": ("random", {"start": "random", **GENTLE}),
    "maxent-mixture": ("mixture", {"kind": "mixture"}),
    "maxent-split": ("split", {"kind": "split"}),
}
COLUMNS = {"distance_mean": "distance", "direction_uniformity": "uniformity"}  # those that have another name


@dataclass(frozen=True)
class Answer:
    """A test of a claim: is the first group above the second, below it, or equal to it? With Holm's correction."""

    part: Part
    groups: tuple[Group, Group]
    test: Test  # Mann-Whitney U
    interval: Interval
    p_equal: float  # of TOST

    @property
    def verdict(self) -> str:
        """The verdict of the plan on this test."""
        relation, differ, same = self.part[2], self.test.holm < LEVEL, self.p_equal < LEVEL
        if relation == "equal":
            return HOLDS if same else FAILS if differ else OPEN
        if differ and (self.test.effect > 0.5) == (relation == "above"):
            return HOLDS
        return FAILS if differ or same else OPEN

    @property
    def p(self) -> float:
        """The p that the table of claims shows."""
        return self.p_equal if self.part[2] == "equal" else self.test.holm


def judge(questions: Sequence[tuple[Part, Group, Group]]) -> list[Answer]:
    """Answer the questions of one claim."""
    tests = compare([(first, second) for _, first, second in questions])
    found = [ratio(first.values, second.values) for _, first, second in questions]
    corrected = holm([each.p_equal for each in found])
    return [
        Answer(part, (first, second), *rest)
        for (part, first, second), *rest in zip(questions, tests, found, corrected, strict=True)
    ]


def overall(answers: Sequence[Answer]) -> str:
    """Return the verdict on a claim: it holds if all of its tests hold, and not if one of them does not."""
    found = {answer.verdict for answer in answers}
    return FAILS if FAILS in found else HOLDS if found == {HOLDS} else OPEN


@dataclass(frozen=True)
class Result:
    """A claim with the answers that the runs give."""

    claim: Claim
    groups: dict[str, Group]  # by metric and name: the numbers of the runs
    answers: list[Answer]

    @property
    def fewest(self) -> int:
        """The number of runs of the smallest group that the claim needs."""
        wanted = {f"{metric} {name}" for metric, first, _, second in self.claim.parts for name in (first, second)}
        return min(len(self.groups[name].values) if name in self.groups else 0 for name in wanted)

    @property
    def complete(self) -> bool:
        """Whether all groups have all seeds; p and verdict wait for it."""
        return self.fewest >= SEEDS

    @property
    def verdict(self) -> str:
        """The verdict of the plan, which waits for all seeds."""
        if not self.groups:
            return "not run"
        return overall(self.answers) if self.complete else f"{OPEN} ({self.fewest} of {SEEDS} runs)"


def value(row: Row, metric: str) -> float:
    """Return the endpoint of a run: its mean over generations 20 to 29, or over its last ten if it has fewer."""
    kind, _, which = metric.partition(" ")
    if kind == "after":
        return number(row, f"x_{which}")
    if kind == "adaptation":
        return (number(row, "adapt_left") + number(row, "adapt_right")) / 2
    if kind.startswith("sample"):
        return number(row, "distance_last" if which == "distance" else "distance_variance_last")
    column = COLUMNS.get(metric, metric)
    late = number(row, f"{column}_20_29")
    return late if math.isfinite(late) else number(row, f"{column}_last_10")


def examine(rows: Sequence[Row]) -> list[Result]:
    """Return each claim with what the runs say."""
    found = []
    for claim in CLAIMS:
        robot = claim.name.partition("-")[0]
        groups: dict[str, Group] = {}
        for metric, first, _, second in claim.parts:
            for name in (first, second):
                values = _values(rows, robot, name, metric, second == name)
                if len(values):
                    groups[f"{metric} {name}"] = Group(GROUPS[name][0], values)
        questions = [
            (part, groups[one], groups[other])
            for part in claim.parts
            if (one := f"{part[0]} {part[1]}") in groups and (other := f"{part[0]} {part[3]}") in groups
        ]
        found.append(Result(claim, groups, judge(questions) if questions else []))
    return found


def _values(rows: Sequence[Row], robot: str, name: str, metric: str, against: bool) -> np.ndarray:
    """Return the endpoints of all seeds of a group."""
    wanted = {"robot": robot, "engine": "mujoco", "rules": "text", **GROUPS[name][1]}
    size, lengths = "10000", ("20", "21", "30")
    if metric.startswith("sample"):  # with a quarter of the std only MAML is sampled
        quarter = against and metric.startswith("sample-quarter")
        wanted |= {"kind": "sample", "std": "0.005" if quarter else "0.02"}
        size, lengths = "1000", ("1",)
    elif name == "maml":
        size, lengths = "40", ("375",)  # tasks and iterations
    chosen = select(rows, population=size, **wanted)
    chosen = [row for row in chosen if row["generations"] in lengths and int(row["seed"]) < SEEDS]
    values = np.array([value(row, metric) for row in chosen])
    return values[np.isfinite(values)]


def claim_table(found: Sequence[Result]) -> str:
    """Return the table of claims: one short line for each."""
    rows = []
    for each in found:
        counts = ", ".join(dict.fromkeys(f"{len(group.values)}" for group in each.groups.values())) or "0"
        rows.append((each.claim.text, each.claim.paper, _here(each), counts, _corrected(each), each.verdict))
    return lines(("claim", "paper", "here", "n", "p", "verdict"), rows)


def _corrected(result: Result) -> str:
    """Return p of the tests of a claim; Holm's correction waits for all of them."""
    return " / ".join(f"{answer.p:.2g}" for answer in result.answers) if result.answers and result.complete else "-"


def _here(result: Result) -> str:
    """Return the means of the groups, in a few words."""
    by_metric: dict[str, list[str]] = {}
    for key, group in result.groups.items():
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
            (first, second), equal = answer.groups, answer.interval
            test = f"{answer.part[0]}: {first.label} {SIGNS[answer.part[2]]} {second.label}"
            sizes = f"{len(first.values)}, {len(second.values)}"
            shown = f"{'' if equal.is_ratio else 'difference '}{equal.value:.3g}"
            shown += "" if math.isnan(equal.low) else f" ({equal.low:.3g} to {equal.high:.3g})"
            numbers = (f"{answer.test.p:.2g}", f"{answer.test.holm:.2g}", f"{answer.p_equal:.2g}", answer.verdict)
            if not equal.is_ratio:
                numbers = (*numbers[:2], "-", answer.verdict)
            if not each.complete:
                numbers = ("-", "-", "-", each.verdict)
            rows.append((each.claim.name, test, sizes, shown, *numbers))
    return lines(head, rows)
