"""What all figures share: sizes for a two-column page, styles that hold in grey, saving whole or not at all."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ees_mpi.analysis.labels import label
from ees_mpi.errors import ConfigError, MissingExtra
from ees_mpi.files import check_writable, replaced
from ees_mpi.store.reader import Run
from ees_mpi.terminal import say_on_stderr

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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
    "pdf.fonttype": 42,  # text stays text: some publishers refuse other fonts
}
COLUMN, PAGE = 3.4, 7.0  # inches: the widths of a column and of a page
# Colour, line and lightness all tell the same apart, so that a grey print does, too.
COLORS = ("black", "#0072b2", "#e69f00", "#999999")
LINES = ("-", "--", "-.", ":")


def matplotlib() -> Any:
    """Return matplotlib, set to draw into files."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("figures need matplotlib: pip install 'ees_mpi[analysis]'") from None
    matplotlib.use("agg")
    return matplotlib


def check_target(target: Path) -> None:
    """Refuse a name under which no figure can be saved, before anything is read."""
    if target.is_dir() or target.suffix not in FORMATS:
        raise ConfigError(f"-o {target}: expected a name that ends in {', '.join(FORMATS)}")
    check_writable(target)


def save(figure: "Figure", target: Path) -> None:
    """Save a figure, whole or not at all."""
    with replaced(target) as fresh:
        figure.savefig(fresh, format=target.suffix.removeprefix("."), bbox_inches="tight", pad_inches=0.03)


def grid(
    count: int, columns: int, height: float, layout: Literal["constrained", "compressed"] = "constrained", **how: Any
) -> "tuple[Figure, list[Axes]]":
    """Make a figure with so many panels in rows of at most `columns`, each of a row's height in inches."""
    from matplotlib.figure import Figure

    columns = min(count, columns)
    rows = -(-count // columns)
    width = min(COLUMN * columns, PAGE) if columns < 3 else PAGE
    figure = Figure(figsize=(width, height * rows), layout=layout)
    panels = list(np.atleast_1d(figure.subplots(rows, columns, **how)).flat)
    for spare in panels[count:]:
        spare.set_axis_off()
    for lowest in panels[max(count - columns, 0) : count]:
        lowest.tick_params(labelbottom=True)  # even where the place below is empty
    return figure, panels[:count]


def style(place: int) -> dict[str, Any]:
    """Return the colour and line of the so-manieth curve of a panel."""
    return {"color": COLORS[place % len(COLORS)], "linestyle": LINES[place % len(LINES)]}


def title(run: Run, place: int = 0, of: int = 1) -> str:
    """Return a panel's title: a letter where there are several, what the run is, its seed."""
    letter = f"({chr(ord('a') + place % 26)}) " if of > 1 else ""
    return f"{letter}{label(run)}, seed {run.config.run.seed}"


def curve(panel: "Axes", rows: Sequence[Any], place: int, name: str) -> None:
    """Draw the mean over runs of curves, as far as the shortest goes, with their standard deviation as a band."""
    length, longest = min(map(len, rows)), max(map(len, rows))
    if length < longest:
        say_on_stderr(
            f"ees-mpi: note: {name}: the runs have {length} to {longest} generations; the first {length} are drawn\n"
        )
    stacked = np.stack([np.asarray(row)[:length] for row in rows])
    whole_numbers(panel)
    mean, std, x = stacked.mean(axis=0), stacked.std(axis=0), np.arange(length)
    how = style(place)
    panel.plot(x, mean, **how, label=f"{name}, n = {len(rows)}", marker="." if length == 1 else None)
    panel.fill_between(x, mean - std, mean + std, color=how["color"], alpha=0.15, linewidth=0)


def whole_numbers(panel: "Axes") -> None:
    """Mark generations, of which there are no halves."""
    from matplotlib.ticker import MaxNLocator

    panel.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))


def legend(panel: "Axes") -> None:
    """Put the legend above a panel, where no curve can be."""
    panel.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0)


@contextmanager
def drawing() -> Iterator[None]:
    """Draw in the style of all figures."""
    with matplotlib().rc_context(STYLE):
        yield
