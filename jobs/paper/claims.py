"""The paper's claims on the small files of jobs/paper/results/: endpoints, tests and verdicts of the plan."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from small_runs import SmallRun
from verdicts import OPEN, Answer, Question, judge, overall

from ees_mpi.analysis.numbers.statistics import Group
from ees_mpi.analysis.offspring import read_offspring

SEEDS = 6
LATE = (20, 30)  # generations of the endpoint of training claims
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


@dataclass(frozen=True)
class Family:
    """Runs of one set of robots: the pattern of their names; `last_only`: the last generation is the endpoint."""

    pattern: str  # {robot}, {group}, {seed}
    last_only: bool = False


PLAN = Family("{robot}-{group}-mujoco-seed{seed}")
GYMNASIUM = Family("mujoco-{robot}-{group}-short-seed{seed}", last_only=True)


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
    def verdict(self) -> str:
        """The verdict of the plan, which waits for all seeds."""
        if not self.groups:
            return "not run"
        return overall(self.answers) if self.fewest >= SEEDS else f"{OPEN} ({self.fewest} of {SEEDS})"


def late(run: SmallRun, metric: str, last_only: bool) -> float:
    """Return the endpoint of a training: the mean of a measure over the last ten generations, or of the last one."""
    count = run.generations
    first, end = LATE if count >= LATE[1] else (max(count - 10, 0), count)
    values = run[metric][-1:] if last_only else run[metric][first:end]
    return float(np.nan_to_num(values).mean())  # a generation without offspring beyond the radius counts as 0


def value(run: SmallRun, metric: str, results: Path, last_only: bool) -> float:
    """Return the endpoint of a run; NaN if the run does not have it."""
    kind, _, which = metric.partition(" ")
    if kind == "after":
        return float(run["fitness_mean"][int(which)]) if run.generations > int(which) else math.nan
    if kind == "adaptation":
        files = sorted((results / "adaptations").glob(f"{run.path.name}-adapt-*.json"))
        scores = [np.nanmean(json.loads(path.read_text())["evaluations/fitness"]) for path in files]
        return float(np.mean(scores)) if scores else math.nan
    if kind.startswith("sample"):
        distance = read_offspring(run).distance
        return float(distance.mean() if which == "distance" else distance.var())
    return late(run, metric, last_only) if metric in run.names else math.nan


def examine(runs: dict[str, SmallRun], results: Path, family: Family, claims: Sequence[Claim] = CLAIMS) -> list[Result]:
    """Return each claim with what the runs of a family say."""
    found = []
    for claim in claims:
        robot = claim.name.partition("-")[0]
        groups: dict[str, Group] = {}
        for metric, first, _, second in claim.parts:
            for name in (first, second):
                values = _values(runs, results, family, robot, name, metric, second == name)
                if len(values):
                    groups[f"{metric} {name}"] = Group(NAMES[name], values)
        questions = [
            Question(groups[one], groups[other], relation)
            for metric, first, relation, second in claim.parts
            if (one := f"{metric} {first}") in groups and (other := f"{metric} {second}") in groups
        ]
        found.append(Result(claim, groups, judge(questions) if questions else []))
    return found


def _values(
    runs: dict[str, SmallRun], results: Path, family: Family, robot: str, name: str, metric: str, against: bool
) -> np.ndarray:
    """Return the endpoints of all seeds of a group."""
    ending = ""
    if metric.startswith("sample"):  # with a quarter of the std only MAML is sampled
        ending = "-" + (metric.partition(" ")[0] if against else "sample")
    pattern = re.escape(family.pattern.format(robot=robot, group=name, seed="SEED")).replace("SEED", r"\d+") + ending
    chosen = [run for key, run in sorted(runs.items()) if re.fullmatch(pattern, key)]
    values = np.array([value(run, metric, results, family.last_only) for run in chosen])
    return values[np.isfinite(values)]
