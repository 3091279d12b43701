"""Figures 2, 4, 6 and S3 of the paper: where offspring end, as heat-maps with a logarithmic colour scale."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ees_mpi.analysis.figures.style import COLUMN, PAGE, grid, title, whole_numbers
from ees_mpi.analysis.offspring import Cloud, axes, check_one_task, cloud, has_cloud, which
from ees_mpi.errors import RunFileError
from ees_mpi.outcomes import Floats
from ees_mpi.store.reader import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = (0, 5, 10, 20)  # generations of further evolution that the paper shows


def spread(runs: Sequence[Run]) -> "Figure":
    """Figure 2: where the offspring end, generation by generation, one panel a run, all with the same axis."""
    check_one_task(runs)
    limits = []
    for run in runs:
        if which(run, None) < 1 or axes(run) != 1:
            raise RunFileError(f"{run.path}: expected a run with a behavior of one number and two or more generations")
        ends = [np.abs(cloud(run, g).place).max() for g in range(run.generations) if has_cloud(run, g)]
        if not ends:
            raise RunFileError(f"{run.path} has no finite behavior in any generation")
        limits.append(max(ends))
    edges = np.linspace(-1, 1, 101) * (max(limits) or 1.0)
    images = [np.stack([_column(run, g, edges) for g in range(run.generations)]) for run in runs]
    norm = logarithmic(images)
    figure, panels = grid(len(runs), 3, 2.3, sharey=True)
    for place, (panel, run, values) in enumerate(zip(panels, runs, images, strict=True)):
        image = paint(panel, np.arange(run.generations + 1) - 0.5, edges, values, norm)
        panel.axhline(0, color="0.5", linewidth=0.5, linestyle=":")
        panel.set(title=title(run, place, len(runs)), xlabel="generation")
        whole_numbers(panel)
    for panel in panels[::3]:
        panel.set_ylabel("final $x$")
    figure.colorbar(image, ax=panels, label="share of offspring", pad=0.02)
    return figure


def _column(run: Run, generation: int, edges: Floats) -> Floats:
    """Return the shares of a generation; an empty column where no rollout is valid."""
    if not has_cloud(run, generation):
        return np.zeros(len(edges) - 1)
    return shares(cloud(run, generation).place, [edges])


def ant(runs: Sequence[Run], generations: Sequence[int]) -> "Figure":
    """Figure 4: final positions, one panel a run, or one for each generation asked for."""
    check_one_task(runs)
    shown = [(run, which(run, g)) for run in runs for g in generations or (None,)]
    clouds = [plane(run, g) for run, g in shown]
    named = [
        title(run, place, len(shown)) + (f", generation {g}" if generations else "")
        for place, (run, g) in enumerate(shown)
    ]
    return _maps(clouds, named, 3)


def adapting(runs: Sequence[Run], generations: Sequence[int]) -> "Figure":
    """Figures 6 and S3: final positions after some generations of further evolution, a row for each run."""
    check_one_task(runs)
    rows = [[which(run, g) for g in generations] or _chosen(run) for run in runs]
    if len({len(row) for row in rows}) > 1:
        raise RunFileError("the runs have different numbers of generations; say which to draw with --generation")
    clouds = [plane(run, g) for run, row in zip(runs, rows, strict=True) for g in row]
    named = [f"after {g} generations" for row in rows for g in row]
    return _maps(clouds, named, len(rows[0]), [title(run) for run in runs])


def _chosen(run: Run) -> list[int]:
    """Return the paper's generations where a run has them, else four spread over it."""
    last = which(run, None)
    if last >= SHOWN[-1]:
        return list(SHOWN)
    return sorted({round(share * last) for share in (0, 1 / 3, 2 / 3, 1)})


def plane(run: Run, generation: int) -> Cloud:
    """Read a generation whose behaviours are positions in the plane."""
    seen = cloud(run, generation)
    if seen.place.shape[1] != 2:
        raise RunFileError(f"{run.path}: expected offspring with a behavior of two numbers, a position in the plane")
    return seen


def _maps(clouds: Sequence[Cloud], named: Sequence[str], columns: int, rows: Sequence[str] = ()) -> "Figure":
    edges = cells(clouds)
    images = [shares(seen.place, [edges, edges]) for seen in clouds]
    norm = logarithmic(images)
    figure, panels = planes(named, edges, columns)
    for panel, values in zip(panels, images, strict=True):
        image = paint(panel, edges, edges, values, norm)
    for panel, row in zip(panels[::columns], rows, strict=False):
        panel.set_ylabel(f"{textwrap.fill(row, 24)}\nfinal $y$")
    figure.colorbar(image, ax=panels, label="share of offspring", pad=0.02)
    return figure


def cells(clouds: Sequence[Cloud]) -> Floats:
    """Return the edges, along either axis, of the cells in which all panels count: more for more offspring."""
    limit = 1.05 * max(float(np.abs(seen.place).max()) for seen in clouds) or 1.0
    largest = max(len(seen.place) for seen in clouds)
    return np.linspace(-limit, limit, int(np.clip(2 * np.sqrt(largest), 20, 80)) + 1)


def planes(named: Sequence[str], edges: Floats, columns: int) -> "tuple[Figure, list[Axes]]":
    """Make a panel for each name, with equal axes and the same limits, the origin marked."""
    columns = min(columns, len(named))
    height = PAGE / columns + 0.5 if columns > 1 else COLUMN
    figure, panels = grid(len(named), columns, height, layout="compressed", sharex=True, sharey=True)
    for place, (panel, name) in enumerate(zip(panels, named, strict=True)):
        panel.plot(0, 0, marker="+", color="0.5", markersize=6, zorder=3)
        panel.set(aspect="equal", xlim=(edges[0], edges[-1]), ylim=(edges[0], edges[-1]))
        panel.set_title(textwrap.fill(name, 100 // (columns + 1)))
        if place + columns >= len(named):
            panel.set_xlabel("final $x$")
        if place % columns == 0:
            panel.set_ylabel("final $y$")
    return figure, panels


def shares(place: Floats, edges: Sequence[Floats]) -> Floats:
    """Return the share of offspring in each cell."""
    return np.asarray(np.histogramdd(place, edges)[0] / len(place))


def logarithmic(images: Sequence[Floats]) -> Any:
    """Return a logarithmic colour scale that fits all panels."""
    from matplotlib.colors import LogNorm

    filled = np.concatenate([image[image > 0] for image in images])
    return LogNorm(filled.min(), max(filled.max(), 2 * filled.min()))


def light_to_dark(name: str = "viridis_r", start: float = 0.12, end: float = 1.0) -> Any:
    """Return colours whose lightness falls all the way, so that they hold in grey, from one that shows on white on."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps[name](np.linspace(start, end, 256)))


def paint(panel: "Axes", x: Any, y: Any, values: Floats, norm: Any, colors: Any = None) -> Any:
    """Colour the cells in which anybody is."""
    colors = colors or light_to_dark()
    return panel.pcolormesh(x, y, np.where(values > 0, values, np.nan).T, norm=norm, cmap=colors, rasterized=True)
