"""The paper's figures, from run files."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ees_mpi.analysis.feasibility import feasibility
from ees_mpi.errors import ConfigError, MissingExtra, RunFileError
from ees_mpi.registry import unknown
from ees_mpi.store.reader import Run, open_run
from ees_mpi.tasks.interference import OPTIMUM, Interference, pattern

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".pdf", ".svg")
STYLE = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "lines.linewidth": 1.0,
    "savefig.dpi": 200,
}


class Recipe(NamedTuple):
    """How a figure is made, and from what."""

    draw: Callable[[Sequence[Run]], "Figure"]
    needs: str
    runs: bool = True  # False: made of nothing but the program


def draw(name: str, paths: Sequence[Path], out: Path | None) -> Path:
    """Draw a figure from run files and return where it was written."""
    if name not in FIGURES:
        raise ConfigError(f"figure: {unknown(name, FIGURES)}")
    target = out or Path(f"{name}.png")
    if target.suffix not in FORMATS:
        raise ConfigError(f"-o {target}: expected a name that ends in {', '.join(FORMATS)}")
    if not target.parent.is_dir():
        raise ConfigError(f"-o {target}: the folder {target.parent} does not exist")
    recipe = FIGURES[name]
    if bool(paths) is not recipe.runs:
        raise ConfigError(f"figure {name} needs {recipe.needs}; got {len(paths)} run files")
    plotting = _matplotlib()
    runs = [open_run(path) for path in paths]
    try:
        with plotting.rc_context(STYLE):
            figure = recipe.draw(runs)
            figure.savefig(target)
    except PermissionError as error:
        raise ConfigError(f"-o {target}: {error.strerror}") from None
    finally:
        for run in runs:
            run.close()
    return target


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("figures need matplotlib: pip install 'ees_mpi[analysis]'") from None
    matplotlib.use("agg")
    return matplotlib


def interference(runs: Sequence[Run]) -> "Figure":
    """Figure 1: the pattern, and the genome over generations for MaxVar and MaxEnt, the optimum dashed."""
    from matplotlib.figure import Figure

    curves = {name: _genomes(runs, name) for name in ("maxvar", "maxent")}
    figure = Figure(figsize=(7.0, 2.1), layout="constrained")
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
    from ees_mpi.objectives import OBJECTIVES

    lines = []
    for run in runs:
        if not isinstance(run.config.task, Interference):
            raise RunFileError(f"{run.path} is not a run of the interference task")
        if run.generations < 1:
            raise RunFileError(f"{run.path} has no committed generation yet")
        if OBJECTIVES.name_of(run.config.objective) == objective:
            lines.append((run.config.run.seed, run["mean"][:, 0, 0]))
    return sorted(lines, key=lambda line: line[0])


def spread(runs: Sequence[Run]) -> "Figure":
    """Figure 2: where the offspring end, generation by generation, one panel a run, all with the same axis."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    for run in runs:
        if run["behavior"].shape[2] != 1 or run.generations < 2:
            raise RunFileError(f"{run.path}: expected a run with a behavior of one number and two or more generations")
    limit = max(np.nanmax(np.abs(run["behavior"][:])) for run in runs)
    edges = np.linspace(-limit, limit, 101)
    figure = Figure(figsize=(min(3.4 * len(runs), 7.0), 2.3), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(runs), sharey=True))
    for panel, run in zip(panels, runs, strict=True):
        rows = [np.histogram(row[np.isfinite(row)], edges)[0] for row in run["behavior"][:, :, 0]]
        counts = np.array(rows).T / run.config.population.size
        image = panel.pcolormesh(
            np.arange(len(rows) + 1) - 0.5,
            edges,
            np.where(counts > 0, counts, np.nan),
            norm=LogNorm(),
            cmap="viridis_r",
        )
        panel.axhline(0, color="0.5", linewidth=0.5, linestyle=":")
        panel.set(title=_title(run), xlabel="generation")
    panels[0].set_ylabel("final $x$")
    figure.colorbar(image, ax=panels, label="share of offspring", pad=0.02)
    return figure


def adaptation(runs: Sequence[Run]) -> "Figure":
    """Figure 5: distance in the wanted direction over generations, from trained and from random means."""
    from matplotlib.figure import Figure

    groups: dict[float, dict[str, list[Any]]] = {}
    for run in runs:
        if not hasattr(run.config.task, "direction") or run.generations < 1:
            raise RunFileError(f"{run.path}: expected a run of a task with a direction, one generation or more")
        origin = "from a trained mean" if run.attributes.get("started_from") else "from a random mean"
        lines = groups.setdefault(run.config.task.direction % 360, {})
        lines.setdefault(origin, []).append(np.asarray(run["fitness_mean"][:]))
    figure = Figure(figsize=(min(3.4 * len(groups), 7.0), 2.3), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(groups), sharey=True))
    styles = {"from a trained mean": "-", "from a random mean": "--"}
    for panel, (direction, lines) in zip(panels, sorted(groups.items()), strict=True):
        for origin, curves in sorted(lines.items()):
            rows = np.stack([curve[: min(map(len, curves))] for curve in curves])
            mean, std = rows.mean(axis=0), rows.std(axis=0)
            panel.plot(mean, styles[origin], color="black", label=f"{origin}, n = {len(rows)}")
            panel.fill_between(np.arange(len(mean)), mean - std, mean + std, color="0.85", linewidth=0)
        panel.set(title=_direction(direction), xlabel="generation", xlim=(0, None))
    panels[0].set_ylabel("distance in that direction")
    panels[0].legend(loc="best")
    return figure


def _direction(degrees: float) -> str:
    return {0.0: "towards $+x$", 180.0: "towards $-x$"}.get(degrees, f"towards {degrees:.0f} degrees")


def _title(run: Run) -> str:
    from ees_mpi.objectives import OBJECTIVES

    names = {"fitness": "standard ES", "maxvar": "MaxVar-EES", "maxent": "MaxEnt-EES"}
    objective = OBJECTIVES.name_of(run.config.objective)
    return f"{names.get(objective, objective)}, seed {run.config.run.seed}"


FIGURES = {
    "interference": Recipe(interference, "runs of interference-maxvar and interference-maxent, any seeds"),
    "adaptation": Recipe(adaptation, "runs of an -adapt preset, with and without --from; a panel for each direction"),
    "cheetah": Recipe(spread, "runs of a cheetah, or any with one behavior number; a panel each"),
    "feasibility": Recipe(feasibility, "no run file", runs=False),
}
