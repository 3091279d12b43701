#!/usr/bin/env python3
"""Keep the results of runs as small files in jobs/paper/results/, and draw figures and statistics from them alone.

    python jobs/paper/results.py collect RUN.h5 ... [--note "16 ranks"] [--policy]   makes the small files of runs
    python jobs/paper/results.py update                    figures/, statistics.txt, the tables of results.md, signal.md
    python jobs/paper/results.py draw                      figures/ and statistics.txt only
    python jobs/paper/results.py numbers                   all numbers that the text of docs/results.md may use

A run NAME.h5 becomes a folder NAME; small_runs.py describes its files.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from claims import GYMNASIUM, PLAN, examine
from claims_tables import adaptation, authors, details, gpu_time, interference, seeding
from claims_tables import table as claim_table
from large_optimizers import tables as optimizer_tables
from small_runs import SmallRun, collect, collect_adaptation, is_adaptation, read_all
from small_statistics import group_numbers, groups, scale

from ees_mpi.analysis.numbers.measures import MEASURES, Settings, direction_uniformity, directions, sides
from ees_mpi.analysis.offspring import has_positions, read_offspring
from ees_mpi.analysis.subject import subject
from ees_mpi.errors import ConfigError, EesError

sys.path.append(str(Path(__file__).parents[1]))

import scaling_figure

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[2] / "ees_mpi" / "docs"
SETTLED = 500  # the last generations of an interference run, for "settled" numbers
LATE = 20  # the last generations of a run, at most half of it, for "late" numbers


def numbers(run: SmallRun) -> dict[str, str]:
    """Return the numbers of a run that docs/results.md shows; those of offspring are of the last generation."""
    offspring, settings = read_offspring(run), Settings()
    values = {"generations": f"{run.generations}", "seconds": f"{_seconds(run):.0f}"}
    if not has_positions(run):
        late = run["mean"][-SETTLED:, 0, 0]
        return values | {"final x": f"{late[-1]:.3f}", "settled x": f"{late.mean():.3f}", "sd": f"{late.std():.3f}"}
    values["mean distance"] = f"{offspring.distance.mean():.1f}"
    values["within 5"] = _percent(MEASURES["near_origin"].compute(offspring, settings))
    if offspring.position.shape[1] == 1:
        left, right = sides(offspring, Settings(radius=1.0))
        late = run["left"][late_generations(run)]
        values |= {"left": _percent(left), "right": _percent(right)}
        values |= {"lowest late left": _percent(min(late)), "highest late left": _percent(max(late))}
    else:
        share = directions(offspring, settings)
        values |= {"rarest direction": _percent(share.min()), "most frequent direction": _percent(share.max())}
        values["direction uniformity"] = f"{direction_uniformity(offspring, settings):.3f}"
    if offspring.components > 1:
        values["specialization"] = f"{MEASURES['specialization'].compute(offspring, settings):.2f}"
    return values


def _seconds(run: SmallRun) -> float:
    """Return the seconds from the first to the last generation, without the time between sessions."""
    lengths = np.diff(run["seconds_clock"])
    lengths[[session["first_generation"] - 1 for session in run.sessions() if session["first_generation"]]] = 0
    return float(lengths.sum())


def late_generations(run: SmallRun) -> slice:
    """Return the last generations of a run, in which the shares of both sides still change."""
    return slice(max(run.generations - LATE, run.generations // 2), run.generations)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def table(runs: Iterable[SmallRun]) -> str:
    """Return the table of runs in docs/results.md."""
    lines = ["| run | engine and size | machine | numbers |", "|---|---|---|---|"]
    for run in (run for run in runs if subject(run).trained):  # samples: see statistics.txt
        found = ", ".join(f"{name} {value}" for name, value in numbers(run).items())
        lines.append(f"| `{run.path.name}` | {scale(run)} | {run.about['note']} | {found} |")
    return "\n".join(lines) + "\n"


def blocks(results: Path) -> dict[str, str]:
    """Return the generated tables of docs/results.md, by the name of their markers."""
    runs = {run.path.name: run for run in read_all(results)}
    plan, gymnasium = examine(runs, results, PLAN), examine(runs, results, GYMNASIUM)
    measured = json.loads((results / "scaling.json").read_text())
    return {
        "claims": claim_table(plan) + interference(runs),
        "tests": details(plan),
        "seeding": seeding(runs, "ant", "mujoco"),
        "seeding-cheetah": seeding(runs, "mujoco-cheetah", "n200"),
        "adaptation": adaptation(results, "cheetah", "mujoco"),
        "authors": authors(runs),
        "gymnasium": claim_table(gymnasium, verdicts=False),
        "gpu": gpu_time(list(runs.values())),
        "runs": table(runs.values()),
        "scaling": "".join(f"    {line}\n" for line in scaling_figure.table(measured["summary"])),
    }


def pages(results: Path) -> dict[str, dict[str, str]]:
    """Return the generated tables of each page of the docs."""
    return {"results.md": blocks(results), "signal.md": optimizer_tables(results)}


def fill(page: str, tables: Mapping[str, str]) -> str:
    """Return a page with new text between its markers."""
    for name, text in tables.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ConfigError(f"the page: expected one {begin.strip()} and one {end}")
        page = page[: page.index(begin) + len(begin)] + text + page[page.index(end) :]
    return page


def main(words: Sequence[str] | None = None) -> int:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["collect", "update", "draw", "numbers"])
    parser.add_argument("runs", nargs="*", type=Path, help="run files to collect")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder of the small files")
    parser.add_argument("--note", default="", help="the machine, in words")
    parser.add_argument("--policy", action="store_true", help="collect the trained mean, too: policy.npz")
    given = parser.parse_args(words)
    if (given.command == "collect") != bool(given.runs):
        parser.error("collect needs run files; the others take none")
    for path in given.runs:
        if is_adaptation(path):
            print(collect_adaptation(path, given.results))
        else:
            print(collect(path, given.results, given.note, given.policy))
    if given.command == "update":
        for page, tables in pages(given.results).items():
            path = DOCS / page
            path.write_text(fill(path.read_text(encoding="utf-8"), tables), encoding="utf-8")
            print(path)
    if given.command in ("update", "draw"):
        from results_figures import draw  # needs matplotlib, which `collect` does not

        print(*draw(given.results, given.results), sep="\n")
    if given.command == "numbers":
        runs = read_all(given.results)
        for run in runs:
            print(*(f"`{run.path.name}`: {key} {value}" for key, value in numbers(run).items()), sep="\n")
        for name, members in groups(runs).items():
            print(
                *(f"`{name}`: {key} {value}" for key, value in group_numbers(members, given.results).items()), sep="\n"
            )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (EesError, OSError) as error:
        sys.exit(f"results.py: {error}")
