"""Figures 7 and S4 of the paper: where the offspring of a mixture end, its components told apart."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ees_mpi.analysis.figures.heatmaps import cells, light_to_dark, logarithmic, paint, plane, planes, shares
from ees_mpi.analysis.figures.style import LINES, title
from ees_mpi.analysis.offspring import Cloud, check_one_task, which
from ees_mpi.errors import MissingExtra
from ees_mpi.outcomes import Floats
from ees_mpi.store.reader import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ALL = "Greys"
RANGE = (0.3, 0.8)  # of each map: lighter would not show on white, darker would hide the outlines
OWN = ("Blues", "Oranges", "Greens", "Purples")
DARK = ("#08306b", "#b34700", "#00441b", "#3f007d")
INSIDE = 0.8  # share of a component's offspring within its outline
SMOOTH = 1.5  # cells, of the outlines
ENOUGH = 5  # offspring, for an outline to mean anything


def mixture(runs: Sequence[Run], generations: Sequence[int]) -> "Figure":
    """Final positions in the colour of the component that most in a cell come from; an outline for each component.

    Colours go from light to dark alike, and outlines differ in line, so that a grey print tells them apart, too.
    """
    from matplotlib.cm import ScalarMappable

    check_one_task(runs)
    shown = [(run, which(run, g)) for run in runs for g in generations or (None,)]
    clouds = [plane(run, g) for run, g in shown]
    named = [title(run, place, len(shown)) for place, (run, _) in enumerate(shown)]
    edges = cells(clouds)
    norm = logarithmic([shares(seen.place, [edges, edges]) for seen in clouds])
    figure, panels = planes(named, edges, 3)
    for panel, seen in zip(panels, clouds, strict=True):
        _draw(panel, seen, edges, norm)
    handles = {text: line for panel in panels for line, text in zip(*panel.get_legend_handles_labels(), strict=True)}
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles))
    figure.colorbar(ScalarMappable(norm, light_to_dark(ALL, *RANGE)), ax=panels, label="share of offspring", pad=0.02)
    return figure


def _draw(panel: "Axes", seen: Cloud, edges: Floats, norm: object) -> None:
    total = shares(seen.place, [edges, edges])
    if seen.components == 1:
        paint(panel, edges, edges, total, norm, light_to_dark(ALL, *RANGE))
        return
    members = [seen.place[seen.parent == component] for component in range(seen.components)]
    counts = np.stack([np.histogramdd(place, [edges, edges])[0] for place in members])
    most = counts.argmax(axis=0)
    for component, place in enumerate(members):
        own = light_to_dark(OWN[component % len(OWN)], *RANGE)
        paint(panel, edges, edges, np.where(most == component, total, 0), norm, own)
        if len(place) >= ENOUGH:
            how: dict[str, Any] = {"color": DARK[component % len(DARK)], "linestyle": LINES[component % len(LINES)]}
            _outline(panel, counts[component], edges, how)
            panel.plot([], [], **how, label=f"component {component}")


def _outline(panel: "Axes", counts: Floats, edges: Floats, how: dict[str, Any]) -> None:
    """Draw a line around the densest cells that hold most of a component's offspring."""
    from matplotlib.patheffects import withStroke

    try:
        from scipy.ndimage import gaussian_filter
    except ImportError:
        raise MissingExtra("figure mixture needs scipy: pip install 'ees_mpi[analysis]'") from None
    smooth = gaussian_filter(counts, SMOOTH)
    falling = np.sort(smooth, axis=None)[::-1]
    level = falling[np.searchsorted(np.cumsum(falling), INSIDE * falling.sum())]
    middle = (edges[1:] + edges[:-1]) / 2
    drawn = panel.contour(middle, middle, smooth.T, [level], colors=how["color"], linestyles=how["linestyle"])
    drawn.set(linewidth=1.2, path_effects=[withStroke(linewidth=3, foreground="white")])
