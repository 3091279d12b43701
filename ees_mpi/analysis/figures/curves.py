"""Figures 1, 5, S1 and S2 of the paper, and MAML's learning: curves over generations."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ees_mpi.analysis.figures.style import COLUMN, PAGE, curve, grid, legend
from ees_mpi.analysis.labels import label, started_from
from ees_mpi.analysis.offspring import check_one_task, check_runs, cloud, has_cloud, has_offspring, which
from ees_mpi.errors import RunFileError
from ees_mpi.store.reader import Run
from ees_mpi.tasks.interference import OPTIMUM, Interference, pattern

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RANDOM = "a random mean"


def interference(runs: Sequence[Run]) -> "Figure":
    """Figure 1: the pattern, and the genome over generations for MaxVar and MaxEnt, the optimum dashed."""
    from matplotlib.figure import Figure

    check_runs(runs)
    curves = {name: _genomes(runs, name) for name in ("maxvar", "maxent")}
    figure = Figure(figsize=(PAGE, 2.1), layout="constrained")
    left, *panels = figure.subplots(1, 3)
    x = np.linspace(0, 5 * np.pi, 4000)
    left.plot(x, [pattern(v) for v in x], color="0.35", linewidth=0.5)
    left.axvline(OPTIMUM, color="black", linestyle="--")
    left.set(title="(a) interference pattern", xlabel="genome $x$", ylabel="behavior $f(x)$", xlim=(0, 5 * np.pi))
    titles = {"maxvar": "(b) MaxVar-EES", "maxent": "(c) MaxEnt-EES"}
    for panel, (name, lines) in zip(panels, curves.items(), strict=True):
        for (seed, genome), shade in zip(lines, np.linspace(0.0, 0.6, len(lines)), strict=True):
            panel.plot(genome, color=str(shade), label=f"seed {seed}")
        panel.axhline(OPTIMUM, color="black", linestyle="--")
        panel.set(title=titles[name], xlabel="generation", ylabel="genome $x$", xlim=(0, None))
        panel.legend(loc="lower right") if lines else panel.text(0.5, 0.5, "no run", transform=panel.transAxes)
    return figure


def _genomes(runs: Sequence[Run], objective: str) -> list[tuple[int, Any]]:
    lines = []
    for run in runs:
        if not isinstance(run.config.task, Interference):
            raise RunFileError(f"{run.path} is not a run of the interference task")
        which(run, None)
        if run.config.method.algorithm == objective:
            lines.append((run.config.run.seed, run["mean"][:, 0, 0]))
    return sorted(lines, key=lambda line: line[0])


def adaptation(runs: Sequence[Run]) -> "Figure":
    """Figure 5: distance in the wanted direction over generations, from trained and from random means."""
    check_runs(runs)
    check_one_task(runs)
    groups: dict[float, dict[str, list[Any]]] = {}
    for run in runs:
        if run.config.task.heading is None:
            raise RunFileError(f"{run.path}: expected a run of a task with a direction")
        if run.config.method.algorithm in ("maxvar", "maxent", "novelty"):
            raise RunFileError(f"{run.path} is of {label(run)}, which goes in no direction; expected standard ES")
        which(run, None)
        origin = started_from(run) or RANDOM
        lines = groups.setdefault(run.config.task.heading % 360, {})
        lines.setdefault(origin, []).append(run["fitness_mean"][:])
    origins = sorted({origin for lines in groups.values() for origin in lines}, key=lambda name: (name == RANDOM, name))
    figure, panels = grid(len(groups), 3, 2.3, sharey=True)
    for panel, (direction, lines) in zip(panels, sorted(groups.items()), strict=True):
        for place, origin in enumerate(origins):
            if origin in lines:
                curve(panel, lines[origin], place, f"from {origin}")
        panel.set(xlabel="generation", ylabel=f"distance {_direction(direction)}", xlim=(0, None))
        legend(panel)
    return figure


def _direction(degrees: float) -> str:
    return {0.0: "towards $+x$", 180.0: "towards $-x$"}.get(degrees, f"towards {degrees:.0f} degrees")


def locomotion(runs: Sequence[Run]) -> "Figure":
    """Figures S1 and S2: mean distance from the origin over generations; mean and deviation over the seeds."""
    check_runs(runs)
    check_one_task(runs)
    lines: dict[str, list[Any]] = {}
    for run in runs:
        last = which(run, None)
        if not any(has_cloud(run, g) for g in range(last + 1)):
            raise RunFileError(f"{run.path} has no finite behavior in any generation")
        distances = [cloud(run, g).distance.mean() if has_cloud(run, g) else np.nan for g in range(last + 1)]
        lines.setdefault(label(run), []).append(distances)
    figure, (panel,) = grid(1, 1, 0.75 * COLUMN)
    for place, name in enumerate(sorted(lines, key=lambda name: (name != "standard ES", name))):
        curve(panel, lines[name], place, name)
    panel.set(xlabel="generation", ylabel="mean distance from the origin", xlim=(0, None), ylim=(0, None))
    legend(panel)
    return figure


def maml_training(runs: Sequence[Run]) -> "Figure":
    """MAML's learning: how far rollouts walk in the wanted direction, after one gradient step and before it.

    Before, apart for tasks along the direction and against it: what walks one way of itself shows as mirrored curves.
    """
    check_runs(runs)
    lines: dict[str, list[Any]] = {"after one gradient step": [], "before, to the right": [], "before, to the left": []}
    for run in runs:
        if run.config.method.name != "maml" or has_offspring(run):
            raise RunFileError(f"{run.path} is not a run of MAML; expected one of a -maml preset")
        if run.generations == 0:
            raise RunFileError(f"{run.path} has no committed generation yet")
        sign, before = run["sign"][:], run["fitness_before"][:]
        shown = (run["fitness"][:], np.where(sign > 0, before, np.nan), np.where(sign < 0, before, np.nan))
        for curves, values in zip(lines.values(), shown, strict=True):
            curves.append(np.nanmean(values, axis=1))
    figure, (panel,) = grid(1, 1, 0.75 * COLUMN)
    panel.axhline(0.0, color="0.8", linewidth=0.5)
    for place, (name, curves) in enumerate(lines.items()):
        curve(panel, curves, place, name)
    panel.set(xlabel="outer iteration", ylabel="distance in the wanted direction", xlim=(0, None))
    legend(panel)
    return figure
