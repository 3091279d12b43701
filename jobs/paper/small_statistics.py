"""Groups of small runs that may be compared, their numbers, and the tests of the paper's claims."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from small_runs import SmallRun, read_all

from ees_mpi.analysis.labels import label as plain_label
from ees_mpi.analysis.labels import started_from
from ees_mpi.analysis.numbers import tables
from ees_mpi.analysis.numbers.measures import MEASURES, Settings
from ees_mpi.analysis.numbers.run_values import AFTER, GENERATIONS, distance_after
from ees_mpi.analysis.numbers.statistics import Group, Test, compare
from ees_mpi.analysis.offspring import has_positions, read_offspring
from ees_mpi.analysis.subject import subject
from ees_mpi.tasks.paper_robots import ENGINE_LABELS

EES = ("MaxVar-EES", "MaxEnt-EES")
ORDER = ("standard ES", *EES, *(f"standard ES from {name}" for name in EES), "MAML")
CLAIMS = {  # the metric: the claim of the paper that it tests
    "distance_mean": "standard ES moves further than either variant; MaxVar and MaxEnt do not differ",
    "balance": "offspring run left and right (twice the smaller share over the sum of both)",
    "near_origin": "more offspring of standard ES end within 5 units of the origin",
    "adaptation": "MaxEnt adapts better than MaxVar (distance in the wanted direction after 40 mutations)",
}
SAMPLE_CLAIMS = {  # the same for samples
    "distance_mean": "distance of 1,000 new offspring",
    "distance_variance": "variance of the distance of 1,000 new offspring",
}
ENGINES = {"bullet": "Bullet, the paper's robot", "mujoco": f"{ENGINE_LABELS['mujoco']}, agreement measured"}
OTHERS = {"mujoco": "Gymnasium's robot in MuJoCo", "interference": "no physics"}
RULES = {"gentle": "gentle rule", "": "fresh Adam", "trust": "trust"}  # of the first steps, as figures name them
LEFT_OUT = ("fitness_mean", "entropy")  # measures: not stored; slow, and logged while training
Values = dict[str, list[float]]  # numbers of runs, by algorithm


def scale(run: SmallRun) -> str:
    """Return the engine and the size of a run."""
    task = run.config.sections()["task"]
    engine = OTHERS.get(run.config.task_name) or ENGINES[task.get("engine", "bullet")]
    steps = f", {task['steps']:,} steps" if "steps" in task else ""
    return f"{engine}; N = {run.config.population.size:,}{steps}"


def groups(runs: Sequence[SmallRun]) -> dict[str, list[SmallRun]]:
    """Return the runs that may be compared, by the part of their names that names neither algorithm nor seed.

    Runs of standard ES from a trained mean, `further`, belong together with those from a random mean, `adapt`.
    """
    found: dict[str, list[SmallRun]] = {}
    for run in runs:
        name = re.sub(r"-(es|maxvar|maxent|maml)(?=-)|-seed\d+", "", run.path.name)
        name = re.sub(r"-adapt\b", "-further", name)
        if "-further" in name:
            name = re.sub(r"-(gentle|fresh|backward|trust)\b", "", name)
        found.setdefault(name, []).append(run)
    return {name: sorted(members, key=_place) for name, members in found.items()}


def label(run: SmallRun) -> str:
    """Return the label of a run in its group, whose runs have one engine; one without a fresh Adam says so."""
    ending = f", {rule(run)}" if rule(run) else ""  # a label that was given has it already
    return plain_label(run).removesuffix(f" ({ENGINE_LABELS['mujoco']})").removesuffix(ending) + ending


def rule(run: SmallRun) -> str:
    """Return the rule of the first steps: fresh Adam (empty), gentle (its first moment is not corrected), or trust."""
    optimizer = run.config.sections().get("optimizer", {})
    return "trust" if optimizer.get("name") == "trust" else "gentle" if optimizer.get("correct_first") is False else ""


def _place(run: SmallRun) -> tuple[int, str]:
    """Return the place of a run in its group: by algorithm, then by name."""
    return (ORDER.index(label(run)) if label(run) in ORDER else len(ORDER)), run.path.name


def first_of_each(runs: Sequence[SmallRun]) -> dict[str, SmallRun]:
    """Return the first run of each algorithm."""
    found: dict[str, SmallRun] = {}
    for run in runs:
        found.setdefault(label(run), run)
    return found


def further(runs: Sequence[SmallRun]) -> bool:
    """Return whether these are runs of standard ES, some of them from a trained mean."""
    return subject(runs[0]).trained and any(
        run.config.method.algorithm == "fitness" and started_from(run) for run in runs
    )


def last_generation(runs: Sequence[SmallRun]) -> int:
    """Return the last generation that all runs have."""
    return min(run.generations for run in runs) - 1


def measured(runs: Sequence[SmallRun], metric: str) -> Values:
    """Return a measure of each run at the last generation that all of them have."""
    values: Values = {}
    for run in runs:
        offspring = read_offspring(run, last_generation(runs))
        values.setdefault(label(run), []).append(MEASURES[metric].compute(offspring, Settings()))
    return values


def adapted(runs: Sequence[SmallRun], results: Path) -> Values:
    """Return the distance in the wanted direction after adaptation, the mean over directions, for runs that have it."""
    values: Values = {}
    for run in runs:
        files = sorted((results / "adaptations").glob(f"{run.path.name}-adapt-*.json"))
        scores = [np.nanmean(json.loads(path.read_text())["evaluations/fitness"]) for path in files]
        if scores:
            values.setdefault(label(run), []).append(float(np.mean(scores)))
    return values


def claims(runs: Sequence[SmallRun], results: Path) -> Iterator[tuple[str, str, Values]]:
    """Yield the claims that these runs can test: metric, claim, values by algorithm."""
    if not has_positions(runs[0]):
        return
    if further(runs):
        for g in (g for g in GENERATIONS if g <= last_generation(runs)):
            values: Values = {}
            for run in runs:
                values.setdefault(label(run), []).append(distance_after(run, g))
            yield f"{AFTER}_{g}", f"standard ES is further in +x from a trained mean, after {g} generations", values
        return
    for metric, claim in (CLAIMS if subject(runs[0]).trained else SAMPLE_CLAIMS).items():
        if metric == "adaptation":
            values = adapted(runs, results)
        else:
            fits = MEASURES[metric].fits(read_offspring(runs[0]))
            values = measured(runs, metric) if fits else {}
        if values:
            yield metric, claim, values


def tests(values: Values) -> list[Test]:
    """Return the test of each pair of algorithms, standard ES last."""
    order = [Group(name, np.array(values[name])) for name in (*ORDER[1:], ORDER[0]) if name in values]
    pairs = [(first, second) for place, first in enumerate(order) for second in order[place + 1 :]]
    return list(compare(pairs)) if pairs else []


def group_numbers(runs: Sequence[SmallRun], results: Path) -> dict[str, str]:
    """Return the numbers of a group that docs/results.md shows: means over seeds, ratios and p."""
    found = {}
    for metric, _, values in claims(runs, results):
        for name, each in values.items():
            found[f"{metric} of {name}"] = tables.number(float(np.mean(each)))
        for test in tests(values):
            pair = f"{metric} {test.first} against {test.second}"
            if metric == "distance_mean":
                found[f"ratio of {pair}"] = f"{100 * test.ratio:.1f} %"
            found[f"p of {pair}"] = f"{test.p:.3g}"
    return found


def statistics(results: Path) -> str:
    """Return the measures of each run, and the tests of the paper's claims for each group of runs."""
    lines = []
    for name, members in groups(read_all(results)).items():
        generation = last_generation(members)
        lines += [f"## {name}: {scale(members[0])}", ""]
        found = [read_offspring(run, generation) for run in members]
        fitting = [key for key, each in MEASURES.items() if key not in LEFT_OUT and each.fits(found[0])]
        heading = f"generation {generation}" if subject(members[0]).trained else "new offspring"
        rows: list[tuple[str, ...]] = [(heading, *(run.path.name for run in members))]
        for key in fitting:
            rows.append((key, *(tables.number(MEASURES[key].compute(each, Settings())) for each in found)))
        rows.append(("entropy", *(tables.number(float(run["entropy"][generation])) for run in members)))
        lines += [*tables.columns(rows), ""]
        for metric, claim, values in claims(members, results):
            lines += [f"{claim} ({metric})", *_sentences(values), ""]
    return "\n".join(lines)


def _sentences(values: Values) -> list[str]:
    means = [f"  {name}: {tables.number(float(np.mean(each)))}, n = {len(each)}" for name, each in values.items()]
    if not (done := tests(values)):
        return [*means, "  no test: only one algorithm was run at this scale"]
    return means + [
        f"  {test.first} against {test.second}: p = {test.p:.3g} (cannot be below {test.least:.2g}), "
        f"ratio of means {'-' if math.isnan(test.ratio) else f'{100 * test.ratio:.1f} %'}"
        for test in done
    ]
