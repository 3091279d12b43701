"""Figures 7 and S4 of the paper: final positions of the offspring of a mixture, in the colors of its components."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ees_mpi.analysis.figures.heatmaps import choose, draw_maps, paint, read_plane, shares
from ees_mpi.analysis.figures.style import LINES, Axes, Figure, titles
from ees_mpi.analysis.offspring import Offspring
from ees_mpi.errors import MissingExtra
from ees_mpi.outcomes import Floats
from ees_mpi.store.reader import Run

RANGE = (0.3, 0.8)  # of each color map: lighter colors are invisible on white, darker ones hide the outlines
GREYS = ("Greys", *RANGE)
COMPONENTS = (("Blues", *RANGE), ("Oranges", *RANGE), ("Greens", *RANGE), ("Purples", *RANGE))
OUTLINES = ("#08306b", "#b34700", "#00441b", "#3f007d")
INSIDE = 0.8  # share of a component's offspring inside its outline
SMOOTH = 1.5  # cells, of the outlines
ENOUGH = 5  # offspring for an outline


def mixture(runs: Sequence[Run], generations: Sequence[int]) -> Figure:
    """Draw figures 7 and S4: each cell has the color of its most frequent component; each component has an outline.

    All colors go from light to dark, and outlines differ in line style, so that they also differ in grey print.
    """
    chosen = choose(runs, generations)
    groups = [read_plane(run, g) for run, g in chosen]
    figure, panels = draw_maps(groups, titles([run for run, _ in chosen]), 3, _paint_components, GREYS)
    handles = {text: line for panel in panels for line, text in zip(*panel.get_legend_handles_labels(), strict=True)}
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles))
    return figure


def _paint_components(panel: Axes, offspring: Offspring, edges: Floats, norm: Any) -> None:
    total = shares(offspring.position, [edges, edges])
    if offspring.components == 1:
        paint(panel, edges, edges, total, norm, GREYS)
        return
    members = [offspring.position[offspring.parent == component] for component in range(offspring.components)]
    counts = np.stack([np.histogramdd(position, [edges, edges])[0] for position in members])
    most = counts.argmax(axis=0)
    for component, position in enumerate(members):
        colors = COMPONENTS[component % len(COMPONENTS)]
        paint(panel, edges, edges, np.where(most == component, total, 0), norm, colors)
        if len(position) >= ENOUGH:
            color, line = OUTLINES[component % len(OUTLINES)], LINES[component % len(LINES)]
            _outline(panel, counts[component], edges, color, line)
            panel.plot([], [], color=color, linestyle=line, label=f"component {component}")


def _outline(panel: Axes, counts: Floats, edges: Floats, color: str, line: str) -> None:
    """Draw a line around the densest cells, which hold most of a component's offspring."""
    from matplotlib.patheffects import withStroke

    try:
        from scipy.ndimage import gaussian_filter
    except ImportError:
        raise MissingExtra("figure mixture needs scipy: pip install 'ees_mpi[analysis]'") from None
    smooth = gaussian_filter(counts, SMOOTH)
    falling = np.sort(smooth, axis=None)[::-1]
    level = falling[np.searchsorted(np.cumsum(falling), INSIDE * falling.sum())]
    middle = (edges[1:] + edges[:-1]) / 2
    drawn = panel.contour(middle, middle, smooth.T, [level], colors=color, linestyles=line)
    drawn.set(linewidth=1.2, path_effects=[withStroke(linewidth=3, foreground="white")])
