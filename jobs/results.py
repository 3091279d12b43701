#!/usr/bin/env python3
"""Keep the results of runs as small files in jobs/results/, and draw figures and statistics from them alone.

    python jobs/results.py collect RUN.h5 ... [--note "16 ranks"] [--policy]   makes the small files of runs
    python jobs/results.py draw                                             figures/ and statistics.txt
    python jobs/results.py table                                            the numbers of docs/results.md

A run NAME.h5 becomes a folder NAME; small_runs.py describes its files.
"""

import argparse
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from small_runs import SmallRun, collect, collect_adaptation, is_adaptation, read_all, shown

from ees_mpi.analysis.figures import curves, positions
from ees_mpi.analysis.figures.style import COLUMN, Figure, draw_curves, drawing, grid
from ees_mpi.analysis.labels import is_sample, label
from ees_mpi.analysis.numbers import tables
from ees_mpi.analysis.numbers.measures import MEASURES, Settings, direction_uniformity, directions, sides
from ees_mpi.analysis.numbers.statistics import Group, compare
from ees_mpi.analysis.offspring import has_positions, read_offspring
from ees_mpi.errors import EesError
from ees_mpi.store.reader import Run

RESULTS = Path(__file__).parent / "results"
ENGINES = {"mujoco": "MuJoCo, other physics than the paper's", "cheetah": "Bullet, the paper's robot"}
ENGINES |= {"ant": ENGINES["cheetah"], "interference": "no physics"}
SETTLED = 500  # the last generations of an interference run, for "settled" numbers
LATE = 20  # the last generations of a run, for "late" numbers
CLAIMS = (  # (the claim of the paper, the metric), for MaxVar and MaxEnt against standard ES
    ("standard ES moves further than either variant; MaxVar and MaxEnt do not differ", "distance_mean"),
    ("more offspring of standard ES end within 5 units of the origin", "near_origin"),
)


def numbers(run: SmallRun) -> dict[str, str]:
    """Return the numbers of a run that docs/results.md shows; those of offspring are of the last generation."""
    offspring, settings = read_offspring(run), Settings()
    clock = run["seconds_clock"]
    values = {"generations": f"{run.generations}", "seconds": f"{clock[-1] - clock[0]:.0f}"}
    if not has_positions(run):
        late = run["mean"][-SETTLED:, 0, 0]
        return values | {"final x": f"{late[-1]:.3f}", "settled x": f"{late.mean():.3f}", "sd": f"{late.std():.3f}"}
    values["mean distance"] = f"{offspring.distance.mean():.1f}"
    values["within 5"] = _percent(MEASURES["near_origin"].compute(offspring, settings))
    if offspring.position.shape[1] == 1:
        left, right = sides(offspring, Settings(radius=1.0))
        late = [sides(read_offspring(run, g), Settings(radius=1.0))[0] for g in late_generations(run)]
        values |= {"left": _percent(left), "right": _percent(right)}
        values |= {"lowest late left": _percent(min(late)), "highest late left": _percent(max(late))}
    else:
        share = directions(offspring, settings)
        values |= {"rarest direction": _percent(share.min()), "most frequent direction": _percent(share.max())}
        values["direction uniformity"] = f"{direction_uniformity(offspring, settings):.3f}"
    return values


def late_generations(run: SmallRun) -> range:
    """Return the last generations of a run, in which the shares of both sides still change."""
    return range(max(run.generations - LATE, 0), run.generations)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def scale(run: Run) -> str:
    """Return the engine and the size of a run."""
    task = run.config.sections()["task"]
    engine = ENGINES.get(run.config.task_name, run.config.task_name)
    steps = f", {task['steps']:,} steps" if "steps" in task else ""
    return f"{engine}; N = {run.config.population.size:,}{steps}"


def table(runs: Iterable[SmallRun]) -> str:
    """Return the table of runs in docs/results.md."""
    lines = ["| run | engine and size | machine | numbers |", "|---|---|---|---|"]
    for run in runs:
        found = ", ".join(f"{name} {value}" for name, value in numbers(run).items())
        lines.append(f"| `{run.path.name}` | {scale(run)} | {run.about['note']} | `{run.path.name}`: {found} |")
    return "\n".join(lines) + "\n"


def groups(runs: Sequence[SmallRun]) -> dict[str, list[SmallRun]]:
    """Return the runs that may be compared: of one robot, engine, size and number of generations."""
    found: dict[str, list[SmallRun]] = {}
    for run in runs:
        robot = run.config.sections()["task"].get("model", run.config.task_name)
        length = f"sample, std {run.config.population.std:g}" if is_sample(run) else f"{run.generations} generations"
        found.setdefault(f"{robot}: {scale(run)}, {length}", []).append(run)
    return found


def statistics(runs: Sequence[SmallRun]) -> str:
    """Return the measures of each run, and the tests of the paper's claims for each group of runs."""
    lines = []
    for name, members in groups(runs).items():
        lines += [f"## {name}", ""]
        found = [read_offspring(run) for run in members]
        fitting = [key for key, each in MEASURES.items() if key != "fitness_mean" and each.fits(found[0])]
        rows: list[tuple[str, ...]] = [("last generation", *(run.path.name for run in members))]
        for key in fitting:
            rows.append((key, *(tables.number(MEASURES[key].compute(each, Settings())) for each in found)))
        lines += [*tables.columns(rows), ""]
        for claim, metric in CLAIMS if has_positions(members[0]) else ():
            lines += [f"{claim} ({metric})", *_tests(members, metric), ""]
    return "\n".join(lines)


def _tests(runs: Sequence[SmallRun], metric: str) -> list[str]:
    """Return a line for each test of MaxVar and MaxEnt against standard ES and against each other."""
    values: dict[str, list[float]] = {}
    for run in runs:
        value = MEASURES[metric].compute(read_offspring(run), Settings())
        values.setdefault(label(run), []).append(value)
    named = {name: Group(name, np.array(each)) for name, each in values.items()}
    order = [named[name] for name in ("MaxVar-EES", "MaxEnt-EES", "standard ES") if name in named]
    pairs = [(first, second) for place, first in enumerate(order) for second in order[place + 1 :]]
    if not pairs:
        return ["  no test: only one algorithm was run at this scale"]
    return [
        f"  {test.first} against {test.second}: p = {test.p:.3g} (cannot be below {test.least:.2g}), "
        f"ratio of means {'-' if math.isnan(test.ratio) else f'{100 * test.ratio:.1f} %'}"
        for test in compare(pairs)
    ]


def draw(results: Path, out: Path) -> list[Path]:
    """Draw all figures and write statistics.txt, from the small files alone; return the paths."""
    runs, made = read_all(results), [out / "statistics.txt"]
    (out / "figures").mkdir(parents=True, exist_ok=True)
    made[0].write_text(statistics(runs), encoding="utf-8")
    with drawing():
        for members in groups(runs).values():
            made += [_save(figure, run, out / "figures" / f"{name}.png") for name, run, figure in _figures(members)]
    return made


def _figures(runs: Sequence[SmallRun]) -> Iterator[tuple[str, SmallRun, Figure]]:
    """Draw the figures of runs that may be compared: yield the name of each, a run and the figure."""
    name = runs[0].path.name
    if not has_positions(runs[0]):
        yield runs[0].config.task_name, runs[0], curves.interference(runs)
        return
    for run in runs:
        if run.config.task.axes == 1 and run.generations == 1:
            yield run.path.name, run, positions.maml([run])
        elif run.config.task.axes == 1:
            yield run.path.name, run, positions.cheetah([run])
        else:
            yield run.path.name, run, positions.ant([run], [run.generations - 1])
            yield f"{run.path.name}-over", run, positions.ant([run], shown(run.generations))
    lines: dict[str, list[Any]] = {}
    for run in runs:
        lines.setdefault(label(run), []).append(run["distance_mean"])
    figure, (panel,) = grid(1, 1, 0.75 * COLUMN)
    draw_curves(panel, lines, list(lines), xlabel="generation", ylabel="mean distance from the origin")
    yield f"{name}-distance", runs[0], figure


def _save(figure: Figure, run: Run, path: Path) -> Path:
    """Save a figure; its heading names the engine and the size of the runs."""
    figure.suptitle(scale(run).replace("; ", "\n"), fontsize=6)
    figure.savefig(path, metadata={"Software": None}, bbox_inches="tight", pad_inches=0.03)
    return path


def main(words: Sequence[str] | None = None) -> int:
    """Run one of the three commands."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["collect", "draw", "table"])
    parser.add_argument("runs", nargs="*", type=Path, help="run files to collect")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder of the small files")
    parser.add_argument("--note", default="", help="the machine, in words")
    parser.add_argument("--policy", action="store_true", help="collect the trained mean, too: policy.npz")
    given = parser.parse_args(words)
    if (given.command == "collect") != bool(given.runs):
        parser.error("collect needs run files; draw and table take none")
    for path in given.runs:
        if is_adaptation(path):
            print(collect_adaptation(path, given.results))
        else:
            print(collect(path, given.results, given.note, given.policy))
    if given.command == "draw":
        print(*draw(given.results, given.results), sep="\n")
    if given.command == "table":
        print(table(read_all(given.results)), end="")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (EesError, OSError) as error:
        sys.exit(f"results.py: {error}")
