"""The paper's claims on the runs of numbers.csv: endpoints, tests and verdicts of the first plan."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from endpoints import Row, number, select
from verdicts import OPEN, Answer, Question, judge, overall

from ees_mpi.analysis.numbers.statistics import Group

SEEDS = 6
NAMES = {
    "es": "standard ES",
    "maxvar": "MaxVar",
    "maxent": "MaxEnt",
    "maml": "MAML",
    "maxvar-further": "from MaxVar",
    "maxent-further": "from MaxEnt",
    "adapt-gentle": "random",
    "adapt": "random",
    "maxent-mixture": "mixture",
    "maxent-split": "split",
}
Part = tuple[str, str, str, str]  # metric, first group, relation, second group


@dataclass(frozen=True)
class Claim:
    """A claim of the paper: its name in the plan, its words, the paper's numbers, and its tests."""

    name: str
    text: str
    paper: str
    parts: tuple[Part, ...]


def _both(metric: str, relation: str, against: str, first: Sequence[str] = ("maxvar", "maxent")) -> tuple[Part, ...]:
    return tuple((metric, each, relation, against) for each in first)


FURTHER = ("maxvar-further", "maxent-further")
AFTER = tuple(part for g in (5, 10, 20) for part in _both(f"after {g}", "above", "adapt-gentle", FURTHER))
OFFSPRING = tuple(
    part
    for ending in ("sample", "sample-quarter")
    for metric in ("distance", "variance")
    for part in _both(f"{ending} {metric}", "above", "maml")
)
CLAIMS = (
    Claim(
        "ant-directions",
        "ant: offspring walk in all directions (direction uniformity)",
        "a ring",
        _both("direction_uniformity", "above", "es"),
    ),
    Claim("ant-distance", "ant: standard ES moves further", "85 %, 83 %", _both("distance_mean", "below", "es")),
    Claim(
        "ant-equal",
        "ant: MaxVar and MaxEnt move equally far",
        "p > 0.1",
        (("distance_mean", "maxvar", "equal", "maxent"),),
    ),
    Claim(
        "ant-origin",
        "ant: more offspring of standard ES end within 5 units",
        "p < 0.01",
        _both("near_origin", "below", "es"),
    ),
    Claim(
        "ant-seeding", "ant: a trained mean speeds up standard ES (mean x after 5, 10, 20 updates)", "p < 0.0005", AFTER
    ),
    Claim(
        "cheetah-sides", "cheetah: offspring run left and right (balance)", "two sides", _both("balance", "above", "es")
    ),
    Claim(
        "cheetah-distance", "cheetah: standard ES moves further", "92 %, 94 %", _both("distance_mean", "below", "es")
    ),
    Claim(
        "cheetah-equal",
        "cheetah: MaxVar and MaxEnt move equally far",
        "p > 0.1",
        (("distance_mean", "maxvar", "equal", "maxent"),),
    ),
    Claim(
        "cheetah-adaptation",
        "cheetah: MaxEnt adapts better than MAML and MaxVar; MaxVar as MAML",
        "p < 0.005, < 0.05, > 0.1",
        (
            *_both("adaptation", "above", "maml", ("maxent",)),
            *_both("adaptation", "above", "maxvar", ("maxent",)),
            *_both("adaptation", "equal", "maml", ("maxvar",)),
        ),
    ),
    Claim(
        "cheetah-offspring",
        "cheetah: EES offspring end further away and vary more than MAML's",
        "p < 0.00005",
        OFFSPRING,
    ),
    Claim(
        "ant-mixtures",
        "ant: two components cover no more than one mean",
        "p > 0.1",
        _both("coverage", "equal", "maxent", ("maxent-mixture", "maxent-split")),
    ),
)


TRAINING = {"kind": "training"}
GROUPS: dict[str, dict[str, str]] = {  # the facts of the runs of each group
    "es": {"algorithm": "standard ES", "direction": "0", **TRAINING},
    "maxvar": {"algorithm": "MaxVar", **TRAINING},
    "maxent": {"algorithm": "MaxEnt", **TRAINING},
    "maml": {"algorithm": "MAML", **TRAINING},
    "maxvar-further": {"kind": "seeding", "start": "MaxVar", "first_steps": "gentle"},
    "maxent-further": {"kind": "seeding", "start": "MaxEnt", "first_steps": "gentle"},
    "adapt-gentle": {"kind": "seeding", "start": "random", "first_steps": "gentle"},
    "maxent-mixture": {"kind": "mixture"},
    "maxent-split": {"kind": "split"},
}
COLUMNS = {"distance_mean": "distance", "direction_uniformity": "uniformity"}  # those that have another name


@dataclass(frozen=True)
class Family:
    """Runs of one set of robots; `last_only`: the last generation is the endpoint."""

    robots: str  # before the name of the robot
    last_only: bool = False


PLAN = Family("")
GYMNASIUM = Family("gymnasium-", last_only=True)


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
        return overall(self.answers) if self.complete else f"{OPEN} ({self.fewest} of {SEEDS})"


def value(row: Row, metric: str, last_only: bool) -> float:
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
    if last_only:
        return float(np.nan_to_num(number(row, f"{column}_last")))
    return late if math.isfinite(late) else number(row, f"{column}_last_10")


def examine(rows: Sequence[Row], family: Family, claims: Sequence[Claim] = CLAIMS) -> list[Result]:
    """Return each claim with what the runs of a family say."""
    found = []
    for claim in claims:
        robot = family.robots + claim.name.partition("-")[0]
        groups: dict[str, Group] = {}
        for metric, first, _, second in claim.parts:
            for name in (first, second):
                values = _values(rows, family, robot, name, metric, second == name)
                if len(values):
                    groups[f"{metric} {name}"] = Group(NAMES[name], values)
        questions = [
            Question(groups[one], groups[other], relation)
            for metric, first, relation, second in claim.parts
            if (one := f"{metric} {first}") in groups and (other := f"{metric} {second}") in groups
        ]
        found.append(Result(claim, groups, judge(questions) if questions else []))
    return found


def _values(rows: Sequence[Row], family: Family, robot: str, name: str, metric: str, against: bool) -> np.ndarray:
    """Return the endpoints of all seeds of a group."""
    wanted = {"robot": robot, "engine": "mujoco", "rules": "text", **GROUPS[name]}
    size, lengths = "10000", ("20", "21", "30") if not family.last_only else ("20",)
    if metric.startswith("sample"):  # with a quarter of the std only MAML is sampled
        quarter = against and metric.startswith("sample-quarter")
        wanted |= {"kind": "sample", "std": "0.005" if quarter else "0.02"}
        size, lengths = "1000", ("1",)
    elif name == "maml":
        size, lengths = "40", ("375",)  # tasks and iterations
    chosen = select(
        rows, lambda row: row["generations"] in lengths and int(row["seed"]) < SEEDS, population=size, **wanted
    )
    values = np.array([value(row, metric, family.last_only) for row in chosen])
    return values[np.isfinite(values)]
