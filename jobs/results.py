#!/usr/bin/env python3
"""Keep the results of runs as small files in jobs/results/, and draw figures and statistics from them alone.

    python jobs/results.py collect RUN.h5 ... [--note "16 ranks"] [--policy]   makes the small files of runs
    python jobs/results.py draw                                             figures/ and statistics.txt
    python jobs/results.py table                                            the numbers of docs/results.md

A run NAME.h5 becomes a folder NAME; small_runs.py describes its files.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from small_runs import SmallRun, collect, collect_adaptation, is_adaptation, read_all, shown
from small_statistics import first_of_each, further, group_numbers, groups, last_generation, statistics

from ees_mpi.analysis.figures import curves, positions
from ees_mpi.analysis.figures.style import COLUMN, Figure, draw_curves, drawing, grid
from ees_mpi.analysis.labels import is_sample, label
from ees_mpi.analysis.numbers.measures import MEASURES, Settings, direction_uniformity, directions, sides
from ees_mpi.analysis.offspring import has_positions, read_offspring
from ees_mpi.errors import EesError
from ees_mpi.store.reader import Run

RESULTS = Path(__file__).parent / "results"
ENGINES = {"mujoco": "MuJoCo, other physics than the paper's", "cheetah": "Bullet, the paper's robot"}
ENGINES |= {"ant": ENGINES["cheetah"], "interference": "no physics"}
SETTLED = 500  # the last generations of an interference run, for "settled" numbers
LATE = 20  # the last generations of a run, at most half of it, for "late" numbers


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
    return range(max(run.generations - LATE, run.generations // 2), run.generations)


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
    for run in (run for run in runs if not is_sample(run)):  # samples: see statistics.txt
        found = ", ".join(f"{name} {value}" for name, value in numbers(run).items())
        lines.append(f"| `{run.path.name}` | {scale(run)} | {run.about['note']} | `{run.path.name}`: {found} |")
    return "\n".join(lines) + "\n"


def draw(results: Path, out: Path) -> list[Path]:
    """Draw all figures and write statistics.txt, from the small files alone; return the paths."""
    runs, made = read_all(results), [out / "statistics.txt"]
    (out / "figures").mkdir(parents=True, exist_ok=True)
    made[0].write_text(statistics(results, scale), encoding="utf-8")
    with drawing():
        for name, members in groups(runs).items():
            for figure_name, figure in _figures(name, members):
                figure.suptitle(scale(members[0]).replace("; ", "\n"), fontsize=6)
                made.append(_save(figure, out / "figures" / f"{figure_name}.png"))
        if (measured := results / "scaling.json").exists():
            made.append(_save(draw_scaling(json.loads(measured.read_text())), out / "figures" / "scaling.png"))
    return made


def _figures(name: str, runs: Sequence[SmallRun]) -> Iterator[tuple[str, Figure]]:
    """Draw the figures of a group of runs: yield the name and the figure of each."""
    if not has_positions(runs[0]):
        yield name, curves.interference(runs)
        return
    if further(runs):
        yield name, curves.adaptation(runs)
        return
    firsts = list(first_of_each(runs).values())
    if is_sample(runs[0]):
        yield name, positions.maml(runs)
        return
    if runs[0].config.task.axes == 1:
        yield name, positions.cheetah(firsts)
    else:
        yield name, positions.ant(firsts, [last_generation(firsts)])
        yield f"{name}-over", positions.ant(firsts[-1:], shown(firsts[-1].generations))
    if len(firsts) == 1:
        return
    lines: dict[str, list[Any]] = {}
    for run in runs:
        lines.setdefault(label(run), []).append(run["distance_mean"])
    figure, (panel,) = grid(1, 1, 0.75 * COLUMN)
    draw_curves(panel, lines, list(lines), xlabel="generation", ylabel="mean distance from the origin")
    yield f"{name}-distance", figure


def draw_scaling(measured: dict[str, dict[str, float]]) -> Figure:
    """Draw the steps per second of `tools/bench.py scaling --json`, against the number of ranks."""
    figure, panels = grid(2, 2, 0.8 * COLUMN)
    counts = np.array([int(count) for count in measured])
    for panel, (engine, name) in zip(panels, (("bullet", "Bullet"), ("mujoco", "MuJoCo on CPUs")), strict=True):
        strong, weak = (
            np.array([row[f"{kind}_steps"] / row[f"{engine}_{kind}_s"] for row in measured.values()])
            for kind in ("strong", "weak")
        )
        panel.plot(counts, 1e-3 * max(strong[0], weak[0]) * counts, color="0.6", linestyle=":", label="ideal")
        panel.plot(counts, 1e-3 * strong, "o-", markersize=3, label="strong: the same work in all")
        panel.plot(counts, 1e-3 * weak, "s--", markersize=3, label="weak: the same work per rank")
        panel.set(title=name, xlabel="ranks", xscale="log", yscale="log", ylabel="thousand steps per second")
        panel.set_xticks(counts, [str(count) for count in counts])
        panel.set_yticks(ticks := [2, 5, 10, 20, 50, 100, 200], [str(tick) for tick in ticks])
        panel.set_ylim(0.8e-3 * min(strong[0], weak[0]), 1.2e-3 * counts[-1] * max(strong[0], weak[0]))
        panel.minorticks_off()
        panel.legend()
    return figure


def _save(figure: Figure, path: Path) -> Path:
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
        print(table(runs := read_all(given.results)))
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
