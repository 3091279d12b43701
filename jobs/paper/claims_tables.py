"""The tables of docs/results.md: claims with verdicts, all tests, the interference task, GPU time."""

import itertools
import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from claims import NAMES, Part, Result, late
from small_runs import SmallRun
from small_statistics import RULES, rule
from verdicts import FAILS, HOLDS, Answer

from ees_mpi.analysis.numbers import tables


def table(found: Sequence[Result], verdicts: bool = True) -> str:
    """Return the table of claims: one short line for each."""
    last = "verdict" if verdicts else "direction"
    lines = [f"| claim | paper | here | n | p | {last} |", "|---|---|---|---|---|---|"]
    for each in found:
        if not verdicts and not each.answers:
            continue
        p = [answer.p_equal if answer.question.relation == "equal" else answer.p for answer in each.answers]
        raw = [answer.test.p for answer in each.answers]
        shown = " / ".join(f"{number:.2g}" for number in (p if verdicts else raw)) or "-"
        end = each.verdict if verdicts else _direction(each.answers)
        counts = dict.fromkeys(f"{len(group.values)}" for group in each.groups.values())
        lines.append(
            f"| {each.claim.text} | {each.claim.paper} | {_here(each)} | {', '.join(counts) or '0'} | {shown} | {end} |"
        )
    return "\n".join(lines) + "\n"


def _here(result: Result) -> str:
    """Return the means of the groups, in a few words."""
    if not result.groups:
        return "-"
    by_metric: dict[str, list[str]] = {}
    for key, group in result.groups.items():
        metric = key.rsplit(" ", 1)[0]
        by_metric.setdefault(metric, []).append(f"{group.label} {tables.number(float(group.values.mean()))}")
    several = len(by_metric) > 1
    return "; ".join((f"{metric}: " if several else "") + ", ".join(parts) for metric, parts in by_metric.items())


def _direction(answers: Sequence[Answer]) -> str:
    """Return whether the groups lie as in the paper."""
    words = []
    for answer in answers:
        relation, effect = answer.question.relation, answer.test.effect
        agree = (effect > 0.5) == (relation == "above")
        words.append("-" if relation == "equal" else "as in the paper" if agree else "opposite")
    return ", ".join(dict.fromkeys(words))


SIGNS = {"above": ">", "below": "<", "equal": "="}


def details(found: Sequence[Result]) -> str:
    """Return the table of all tests: means, ratio with its interval, p of both tests, verdict."""
    head = ("claim", "test", "n", "ratio, 90 % interval", "p (Mann-Whitney)", "Holm", "TOST", "verdict")
    rows = [head, ("---",) * len(head)]
    for each in found:
        for (metric, *_), answer in zip(_asked(each), each.answers, strict=True):
            first, second = answer.question.first, answer.question.second
            test = f"{metric}: {first.label} {SIGNS[answer.question.relation]} {second.label}"
            sizes = f"{len(first.values)}, {len(second.values)}"
            p_equal = f"{answer.p_equal:.2g}" if answer.equivalence.is_ratio else "-"
            numbers = (_interval(answer), f"{answer.test.p:.2g}", f"{answer.p:.2g}", p_equal)
            rows.append((each.claim.name, test, sizes, *numbers, answer.verdict))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _interval(answer: Answer) -> str:
    equal = answer.equivalence
    if math.isnan(equal.value):
        return "-"
    return f"{'' if equal.is_ratio else 'difference '}{equal.value:.3g} ({equal.low:.3g} to {equal.high:.3g})"


def _asked(result: Result) -> Iterator[Part]:
    """Yield the parts of a claim whose groups both have runs."""
    for part in result.claim.parts:
        if f"{part[0]} {part[1]}" in result.groups and f"{part[0]} {part[3]}" in result.groups:
            yield part


def settled(runs: dict[str, SmallRun], name: str, generations: int = 500) -> list[float]:
    """Return x of the interference runs of an algorithm, the mean over the last generations."""
    chosen = [run for key, run in sorted(runs.items()) if re.fullmatch(rf"interference-{name}-seed\d+", key)]
    return [float(run["mean"][-generations:, 0, 0].mean()) for run in chosen]


def interference(runs: dict[str, SmallRun]) -> str:
    """Return the lines of the claims on the interference task, which has no test: within 0.1 of the optimum, 7.854."""
    lines = []
    for name in ("maxvar", "maxent"):
        values = settled(runs, name)
        near = all(abs(x - 2.5 * math.pi) < 0.1 for x in values)
        shown = ", ".join(f"{x:.3f}" for x in values) or "-"
        end = "not run" if not values else HOLDS if near else FAILS
        lines.append(
            f"| interference, {NAMES[name]}: x converges to 7.854 | a figure | {shown} | {len(values)} | - | {end} |"
        )
    return "\n".join(lines) + "\n"


STARTS = {  # of standard ES towards +x: the name of the runs
    "random mean": "adapt",
    "MaxVar": "maxvar-further",
    "MaxEnt": "maxent-further",
    "control: standard ES towards -x": "es-backward-further",
}
UPDATES = (0, 1, 2, 5, 10, 20)


def seeding(runs: dict[str, SmallRun], robot: str, size: str) -> str:
    """Return the table of further evolution: mean x after so many updates, means over the seeds."""
    lines = [f"| start | runs | {' | '.join(map(str, UPDATES))} |", "|---|---|" + "---|" * len(UPDATES)]
    for (words, name), (key, way) in itertools.product(STARTS.items(), RULES.items()):
        pattern = re.compile(rf"{robot}-{name}(-gentle|-fresh|-trust)?-{size}-seed\d+")
        chosen = [run for path, run in runs.items() if pattern.fullmatch(path) and rule(run) == key]
        curves = [run["fitness_mean"][: UPDATES[-1] + 1] for run in chosen if run.generations > UPDATES[-1]]
        if curves:
            means = [f"{sum(curve[g] for curve in curves) / len(curves):.2f}" for g in UPDATES]
            lines.append(f"| {words}, {way} | {len(curves)} | {' | '.join(means)} |")
    return "\n".join(lines) + "\n"


def adaptation(results: Path, robot: str, size: str) -> str:
    """Return the table of adaptation: the best of 40 mutations, from the start of training and from ten others."""
    lines = ["| | runs | best of 40, the start of training | the same one, ten other starts | sd of the ten |"]
    lines.append("|---|---|---|---|---|")
    for name, way in itertools.product(("maxvar", "maxent"), ("left", "right")):
        files = [
            json.loads(path.read_text())
            for path in results.glob(f"adaptations/{robot}-{name}-{size}-seed?-adapt-{way}.json")
        ]
        best = [max(file["mutations/fitness"]) for file in files]
        others = [file["evaluations/fitness"] for file in files]
        cells = [np.mean(best), np.mean(others), np.std(others, axis=1).mean()] if files else []
        lines.append(
            f"| {NAMES[name]}, {way} | {len(files)} | {' | '.join(f'{cell:.1f}' for cell in cells) or '- | - | -'} |"
        )
    return "\n".join(lines) + "\n"


def authors(runs: dict[str, SmallRun]) -> str:
    """Return the table of the authors' settings: distance over that of standard ES, and balance, of the same seeds."""
    lines = ["| cheetah | runs | mean distance | over that of standard ES | balance |", "|---|---|---|---|---|"]
    for name in ("es", "maxvar", "maxent", "maxvar-authors", "maxent-authors"):
        chosen = [run for key, run in sorted(runs.items()) if re.fullmatch(rf"cheetah-{name}-mujoco-seed\d+", key)]
        seeds = [run.path.name.rpartition("seed")[2] for run in chosen]
        beside = [runs[key] for seed in seeds if (key := f"cheetah-es-mujoco-seed{seed}") in runs]
        cells = ["-"] * 3
        if chosen:
            distances = [late(run, "distance_mean", last_only=False) for run in chosen]
            others = [late(run, "distance_mean", last_only=False) for run in beside]
            ratio = f"{sum(distances) / sum(others):.2f}" if len(others) == len(chosen) else "-"
            balances = [late(run, "balance", last_only=False) for run in chosen]
            cells = [f"{sum(distances) / len(chosen):.2f}", ratio, f"{sum(balances) / len(chosen):.2f}"]
        lines.append(f"| {name} | {len(chosen)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def gpu_time(runs: Sequence[SmallRun]) -> str:
    """Return the table of GPU minutes of the plan: the time of the runs over the number of runs at a time."""
    blocks: dict[str, list[float]] = {}
    for run in runs:
        beside = re.search(r"(\d+) runs at a time", run.about["note"])
        sessions = [each for each in run.sessions() if each["machine"].get("device") == "cuda"]
        if beside and sessions and re.search(r"-mujoco-seed\d+$", run.path.name):
            seconds = sum(each["end"] - each["start"] for each in sessions)
            name = re.sub(r"-mujoco-seed\d+$", "", run.path.name)
            blocks.setdefault(name, []).append(seconds / 60 / int(beside[1]))
    rows = [f"| {name} | {len(each)} | {sum(each):.1f} |" for name, each in sorted(blocks.items())]
    total = [each for minutes in blocks.values() for each in minutes]
    lines = ["| runs | number | GPU minutes |", "|---|---|---|", *rows, f"| all | {len(total)} | {sum(total):.1f} |"]
    return "\n".join(lines) + "\n"
