"""The pictures of a report, drawn by matplotlib as SVG: its curves, and the figures of its behaviors."""

import base64
import html
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ees_mpi.analysis.figures import curves, positions
from ees_mpi.analysis.figures.positions import LARGEST
from ees_mpi.analysis.figures.style import Figure, drawing, whole_numbers
from ees_mpi.analysis.offspring import position_dim, valid_generations
from ees_mpi.errors import RunFileError
from ees_mpi.outcomes import Floats
from ees_mpi.store.reader import Run

INK = "#010203"  # of axes and texts: the page replaces it by its own color, light or dark
COLORS = ("#3a8fd9", "#ee7f1a", "#3aa655", "#d9534f", "#9673c9", "#a9745b", "#e07cc0", "#8c96a0")  # on white and black
LOOK: dict[Any, Any] = {
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    "svg.fonttype": "none",
    "svg.hashsalt": "ees_mpi",  # the same page every time
    "savefig.transparent": True,
    "text.parse_math": False,  # a file may have any name
}
SHARES = (0, 1 / 3, 2 / 3, 1)  # of a run, at which the map of one run is shown


@contextmanager
def page_style() -> Iterator[None]:
    """Draw in the style of the page."""
    with drawing():
        import matplotlib

        with matplotlib.rc_context(LOOK):
            yield


def key(place: int) -> str:
    """Return a colored square for a legend."""
    return f'<span class="key" style="background:{COLORS[place % len(COLORS)]}"></span>'


def chart(title: str, lines: Mapping[str, Sequence[Floats]], legend: bool = False) -> str:
    """Return a figure with series over generations, of each name one or more; values that are not finite leave a gap.

    The text is empty if there is nothing to see: fewer than two finite values, or zeros only.
    """
    from matplotlib.figure import Figure

    drawn = [(place, _finite(values)) for place, name in enumerate(lines) for values in lines[name]]
    known = np.concatenate([values[np.isfinite(values)] for _, values in drawn])
    if max(np.isfinite(values).sum() for _, values in drawn) < 2 or not known.any():
        return ""
    figure = Figure(figsize=(3.4, 1.9))
    panel = figure.add_axes((0.15, 0.2, 0.82, 0.74))
    for place, values in drawn:
        seen = np.flatnonzero(np.isfinite(values))
        shown = seen if len(seen) <= len(values) / 2 else np.arange(len(values))  # a rare value: connect its points
        color = COLORS[place % len(COLORS)]
        panel.plot(shown, values[shown], color=color, marker="." if len(seen) < 60 else None, markersize=3)
    logarithmic = known.min() > 0 and known.max() / known.min() > 1e3
    panel.set(xlabel="generation", xlim=(0, max(len(values) for _, values in drawn) - 1))
    panel.set_yscale("log" if logarithmic else "linear")
    whole_numbers(panel.xaxis)
    keys = " ".join(f"{key(place)}{html.escape(name)}" for place, name in enumerate(lines)) if legend else ""
    more = " (logarithmic)" if logarithmic else ""
    return f"<figure><b>{html.escape(title)}</b>{more}{keys}{svg(figure)}</figure>"


def _finite(values: Floats) -> Floats:
    """Return values that can be drawn: nothing infinite, and no differences that overflow."""
    values = np.where(np.isfinite(values), values, np.nan)
    return np.where(np.abs(values) < 1 / LARGEST, 0.0, np.clip(values, -LARGEST, LARGEST))


def svg(figure: Figure) -> str:
    """Return a figure as SVG inside the page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :].replace(INK, "currentColor")


def png(pixels: Any) -> str:
    """Return a picture [height, width, 3 or 4] as the data: address of a PNG."""
    from matplotlib.image import imsave

    buffer = io.BytesIO()
    imsave(buffer, pixels, format="png")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def behaviors(runs: Sequence[Run]) -> Figure:
    """Return the figure of the behaviors of all runs, as `ees-mpi figure` draws it; a RunFileError if there is none."""
    first = runs[0]
    if not first.config.population.has_individuals:
        return curves.maml_training(runs)
    if position_dim(first) > 2:
        raise RunFileError(f"a behavior of {position_dim(first)} numbers has no map")
    if position_dim(first) == 1:
        return positions.line(runs) if all(run.generations > 1 for run in runs) else positions.maml(runs)
    draw = positions.mixture if first.config.population.components > 1 else positions.plane
    if len(runs) > 1:
        return draw(runs, ())
    valid = valid_generations(first)
    return draw(runs, sorted({valid[round(share * (len(valid) - 1))] for share in SHARES}))
