"""The figures of jobs/paper/results/, drawn from the small files alone."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from small_runs import SmallRun, read_all, shown
from small_statistics import RULES, first_of_each, further, groups, label, last_generation, rule, scale, statistics

from ees_mpi.analysis.figures import curves, positions
from ees_mpi.analysis.figures.style import COLUMN, Figure, draw_curves, drawing, entitle, explain, grid, look
from ees_mpi.analysis.offspring import has_positions, read_offspring
from ees_mpi.analysis.subject import subject

sys.path.append(str(Path(__file__).parents[1]))

from scaling_figure import draw as draw_scaling

ALGORITHMS = {"es": "standard ES", "maxvar": "MaxVar", "maxent": "MaxEnt"}
WINDOW = 5  # generations of a point in the figure of the signal


def draw(results: Path, out: Path) -> list[Path]:
    """Draw all figures and write statistics.txt, from the small files alone; return the paths."""
    runs, made = read_all(results), [out / "statistics.txt"]
    (out / "figures").mkdir(parents=True, exist_ok=True)
    made[0].write_text(statistics(results), encoding="utf-8")
    for run in runs:
        run.given_label = label(run)
    with drawing():
        for name, members in groups(runs).items():
            for figure_name, figure in _figures(name, members):
                entitle(figure, scale(members[0]).replace("; ", "\n"), 6)
                made.append(_save(figure, out / "figures" / f"{figure_name}.png"))
        if (measured := results / "scaling.json").exists():
            made.append(_save(draw_scaling(json.loads(measured.read_text())), out / "figures" / "scaling.png"))
        if (measured := results / "signal.json").exists():
            made.append(_save(draw_signal(json.loads(measured.read_text())), out / "figures" / "signal.png"))
    return made


def _figures(name: str, runs: Sequence[SmallRun]) -> Iterator[tuple[str, Figure]]:
    """Draw the figures of a group of runs: yield the name and the figure of each."""
    if not has_positions(runs[0]):
        yield name, curves.interference(runs)
        return
    if further(runs):
        yield name, draw_further(runs)
        return
    firsts = list(first_of_each(runs).values())
    if not subject(runs[0]).trained:
        yield name, positions.maml(runs)
        return
    if read_offspring(runs[0]).components > 1:
        for run in runs:
            run.given_label = f"seed {run.config.run.seed}"
        yield name, positions.mixture(runs, [last_generation(runs)])
        return
    if runs[0].config.task.axes == 1:
        yield name, positions.line(firsts)
    else:
        yield name, positions.plane(firsts, [last_generation(firsts)])
        yield f"{name}-over", positions.plane(firsts[-1:], shown(firsts[-1].generations))
        if len(runs) > len(firsts) > 1:
            yield f"{name}-seeds", draw_seeds(runs)
    if len(firsts) == 1:
        return
    lines: dict[str, list[Any]] = {}
    for run in runs:
        lines.setdefault(label(run), []).append(run["distance_mean"])
    figure, (panel,) = grid(1, 1, 0.65 * COLUMN)
    draw_curves(panel, lines, list(lines), xlabel="generation", ylabel="mean distance from the origin")
    explain(figure, [panel])
    yield f"{name}-distance", figure
    if "standard ES" in lines:
        yield f"{name}-ratio", draw_ratio(lines)


def draw_further(runs: Sequence[SmallRun]) -> Figure:
    """Draw further evolution towards +x over generations: the rules of the first steps, from the same starts."""
    rules: dict[str, dict[str, list[Any]]] = {name: {} for name in RULES.values()}
    for run in runs:
        start = label(run).removesuffix(f", {rule(run)}")
        start = start.removeprefix("standard ES ") if " from " in start else "from a random mean"
        start = start.replace("standard ES", "standard ES towards -x").replace("-EES", "")
        rules[RULES[rule(run)]].setdefault(start, []).append(run["fitness_mean"][:])
    rules = {name: lines for name, lines in rules.items() if lines}
    starts = sorted({start for lines in rules.values() for start in lines}, reverse=True)
    figure, panels = grid(len(rules), len(rules), 2.4, sharey=True)
    for panel, (name, lines) in zip(panels, rules.items(), strict=True):
        draw_curves(panel, lines, starts, title=name, xlabel="generation", ylabel="mean distance towards +x")
    explain(figure, panels)
    return figure


def draw_seeds(runs: Sequence[SmallRun]) -> Figure:
    """Draw the positions in the last generation of all runs: a row for each algorithm, a column for each seed."""
    seeds = sorted({run.config.run.seed for run in runs})
    found = [read_offspring(run, last_generation(runs)) for run in runs]
    names = [f"seed {run.config.run.seed}" for run in runs]
    figure, panels = positions.draw_maps(runs[0], found, names, len(seeds))
    for panel, run in zip(panels[:: len(seeds)], runs[:: len(seeds)], strict=True):
        panel.set_ylabel(f"{label(run)}\nfinal y")
    return figure


def draw_ratio(lines: dict[str, list[Any]]) -> Figure:
    """Draw the mean distance of each algorithm over that of standard ES, against generations; means over the seeds."""
    figure, (panel,) = grid(1, 1, 0.75 * COLUMN)
    count = min(len(curve) for curves_of in lines.values() for curve in curves_of)
    means = {name: np.mean([curve[:count] for curve in each], axis=0) for name, each in lines.items()}
    for name, mean in means.items():
        if name != "standard ES":
            panel.plot(np.arange(count), mean / means["standard ES"], label=f"{name}, {len(lines[name])} runs")
    panel.axhline(1.0, color="0.5", linewidth=0.5, linestyle=":")
    panel.set(xlabel="generation", ylabel="distance over that of standard ES", ylim=(0, None))
    panel.legend()
    return figure


def draw_signal(measured: dict[str, dict[str, list[float]]]) -> Figure:
    """Draw the cosine of half gradients (`ees-mpi signal --every 1 --splits 4 --json`) and the steps, over generations.

    A point is the mean over five generations and all seeds; a bar is two standard errors either way. The third panel
    has the share of signal in one generation, with its interval.
    """
    lines: dict[str, list[Any]] = {}
    for name, found in ((name, found) for name, found in measured.items() if "seed" in name):
        algorithm = ALGORITHMS[name.split("-")[1]]
        other = name.endswith("-fitness")
        lines.setdefault(f"fitness, runs of {algorithm}" if other else f"{algorithm}, its own", []).append(found)
    figure, (left, right, shares) = grid(3, 3, 2.4)
    for place, (name, runs) in enumerate(lines.items()):
        windows = np.stack([np.reshape(run["cosine"], (-1, WINDOW)) for run in runs])  # [seed, window, generation]
        x = WINDOW * np.arange(windows.shape[1]) + WINDOW / 2 - 0.5 + 0.3 * (place - 2)
        error = 2 * windows.std(axis=(0, 2), ddof=1) / np.sqrt(windows.shape[0] * WINDOW)
        left.errorbar(x, 100 * windows.mean(axis=(0, 2)), 100 * error, **look(place), marker=".", label=name)
        if "fitness" not in name:
            steps = np.mean([run["step_nats"] for run in runs], axis=0)
            right.semilogy(np.arange(len(steps)), steps, **look(place))
            _draw_shares(shares, measured, name.removesuffix(", its own"), place)
    left.axhline(0.0, color="0.5", linewidth=0.5, linestyle=":")
    left.set(xlabel="generation", ylabel="cosine of half gradients, %")
    right.set(xlabel="generation", ylabel="length of the step, nats")
    shares.set(
        xlabel="mean, and N",
        ylabel="share of signal, %",
        xticks=range(4),
        xticklabels=["random\n600", "trained\n600", "random\n10,000", "trained\n10,000"],
    )
    shares.tick_params(axis="x", labelsize="small")
    explain(figure, [left])
    return figure


def _draw_shares(panel: Any, measured: dict[str, dict[str, list[float]]], algorithm: str, place: int) -> None:
    """Draw the shares of an algorithm: N = 600 and 10,000 (seed 1), around a random and a trained mean."""
    name = next(key for key, words in ALGORITHMS.items() if words == algorithm)
    few, many = measured[f"ant-{name}-n600"], measured[f"ant-{name}-mujoco-seed1"]
    share, low, high = (
        100 * np.array([*few[key], many[key][0], many[key][-1]]) for key in ("share", "share_low", "share_high")
    )
    x = np.arange(4) + 0.1 * (place - 2)
    panel.errorbar(x, share, [share - low, high - share], color=look(place)["color"], marker=".", linestyle="none")


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, metadata={"Software": None}, bbox_inches="tight", pad_inches=0.03)
    return path
