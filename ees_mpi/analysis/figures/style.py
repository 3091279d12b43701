"""The style of all figures: sizes for a two-column page, colors that work in grey print, panels, curves, titles."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ees_mpi.analysis.labels import run_names
from ees_mpi.errors import optional
from ees_mpi.run.file import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:  # matplotlib is imported when a figure is drawn
    Axes = Figure = Any

STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.formatter.useoffset": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "lines.linewidth": 1.0,
    "savefig.dpi": 200,
    "text.parse_math": False,  # for names that users give, with any dollar signs
    "pdf.fonttype": 42,  # text stays text: some publishers refuse other fonts
}
COLUMN, PAGE = 3.4, 7.0  # inches: the widths of a column and of a page
COLORS = ("black", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999")
LINES = ("-", "--", "-.", ":")
ROUND = {"steps": [1, 2, 5, 10]}  # of ticks


def look(place: int) -> dict[str, Any]:
    """Return color and line of a curve: 32 differ, and neighbours differ in both, also in grey print."""
    return {"color": COLORS[place % len(COLORS)], "linestyle": LINES[(place + place // len(COLORS)) % len(LINES)]}


def shades(count: int) -> list[dict[str, Any]]:
    """Return colors and lines for an ordered row of curves, from dark to light."""
    from matplotlib import colormaps

    colors = colormaps["viridis"](np.linspace(0, 0.85, count))
    return [{"color": color, "linestyle": LINES[place % len(LINES)]} for place, color in enumerate(colors)]


@contextmanager
def drawing(more: Mapping[Any, Any] | None = None) -> Iterator[None]:
    """Draw into files, in the style of all figures; `more`: settings of matplotlib."""
    with chdir(Path(__file__).parent):  # matplotlib reads the file matplotlibrc of the present folder
        matplotlib = optional("matplotlib", "figures need matplotlib: pip install 'ees_mpi[analysis]'")
    matplotlib.use("agg")
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, "backend": "agg", **STYLE, **(more or {})}):
        yield


def grid(
    count: int, columns: int, height: float, layout: Literal["constrained", "compressed"] = "constrained", **how: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` panels in rows of at most `columns`; `height`: of a row, in inches."""
    from matplotlib.figure import Figure

    columns = min(count, columns)
    rows = -(-count // columns)
    width = min(COLUMN * columns, PAGE) if columns < 3 else PAGE
    figure = Figure(figsize=(width, height * rows), layout=layout)
    panels = list(np.atleast_1d(figure.subplots(rows, columns, **how)).flat)
    for spare in panels[count:]:
        spare.set_axis_off()
    for lowest in panels[max(count - columns, 0) : count]:
        lowest.tick_params(labelbottom=True)  # also above an empty place
    return figure, panels[:count]


def titles(runs: Sequence[Run]) -> list[str]:
    """Return the titles of panels, with a letter in front if there are several."""
    letters = [f"({chr(ord('a') + place % 26)}) " if len(runs) > 1 else "" for place in range(len(runs))]
    return [letter + name for letter, name in zip(letters, run_names(runs), strict=True)]


def draw_curves(
    panel: Axes,
    groups: Mapping[str, Sequence[Any]],
    order: Sequence[str],
    looks: Sequence[dict[str, Any]] = (),
    **labels: Any,
) -> None:
    """Draw the mean and std of each group of curves, as far as the shortest curve of a group goes.

    order: of all groups; a group has the same style in all panels with this order
    """
    for place, name in enumerate(order):
        if name not in groups:
            continue
        rows, style = groups[name], looks[place] if looks else look(place)
        length = min(map(len, rows))
        stacked = np.stack([np.asarray(row)[:length] for row in rows])
        with np.errstate(invalid="ignore"):  # an entropy may be -inf: a gap
            mean, std, x = stacked.mean(axis=0), stacked.std(axis=0), np.arange(length)
        if np.isfinite(mean).mean() < 0.5:  # known for some generations only: connect these
            x, mean, std = (values[np.isfinite(mean)] for values in (x, mean, std))
        seeds = f"{name}, mean of {len(rows)} runs" if len(rows) > 1 else name
        panel.plot(x, mean, label=seeds, marker="." if length == 1 else None, **style)
        if len(rows) > 1:
            panel.fill_between(x, mean - std, mean + std, color=style["color"], alpha=0.15, linewidth=0)
    if any(len(rows) > 1 for rows in groups.values()):
        panel.fill_between([], [], [], color="0.5", alpha=0.3, linewidth=0, label="band: one sd of the runs either way")
    panel.set(xlim=(0, None), **labels)
    whole_numbers(panel.xaxis)


def whole_numbers(axis: Any) -> None:
    """Put ticks of a count only at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1, **ROUND))


def start_mark(label: str = "start") -> dict[str, Any]:
    """Return the look of the start of robots: above everything else, with a white edge, so that any color shows it."""
    from matplotlib.patheffects import withStroke

    edge = [withStroke(linewidth=2, foreground="white")]
    return {"color": "black", "linewidth": 0.8, "linestyle": "--", "zorder": 3, "path_effects": edge, "label": label}


def decades(bar: Any) -> None:
    """Put plain numbers at the powers of ten of a logarithmic color bar; at 1, 2 and 5 if it has few of them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = bar.mappable.get_clim()
    wide = np.floor(np.log10(high)) - np.ceil(np.log10(low)) >= 1  # two powers of ten or more
    bar.locator = LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0))
    bar.formatter = FuncFormatter(lambda value, _: f"{value:g}")
    bar.minorlocator = LogLocator(subs=tuple(range(2, 10))) if wide else NullLocator()
    bar.update_ticks()


def explain(figure: Figure, panels: Sequence[Axes], heading: str | None = None) -> None:
    """Write the marks of all panels into one legend below them, each once; there it hides nothing."""
    handles = {text: mark for panel in panels for mark, text in zip(*panel.get_legend_handles_labels(), strict=True)}
    if handles:
        widest = 0.45 + 0.06 * max(map(len, handles))  # inches of an entry, about
        columns = int(np.clip(figure.get_figwidth() / widest, 1, len(handles)))
        rows = -(-len(handles) // columns)
        figure.set_figheight(figure.get_figheight() + 0.15 + 0.22 * rows + 0.22 * bool(heading))
        where: dict[str, Any] = {"loc": "outside lower center", "ncols": columns, "title": heading}
        figure.legend(handles.values(), handles.keys(), title_fontsize="medium", **where)
    elif heading:
        figure.supxlabel(heading, fontsize="medium")
