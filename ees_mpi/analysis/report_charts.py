"""The pictures of a report, drawn by matplotlib: curves as SVG, and the behaviors of each generation as PNG."""

import base64
import html
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ees_mpi import metrics
from ees_mpi.analysis.figures.positions import limits
from ees_mpi.analysis.figures.style import Axes, Figure, whole_numbers
from ees_mpi.analysis.labels import stds
from ees_mpi.analysis.numbers.selection import read_sample
from ees_mpi.analysis.offspring import axis_names, has_positions
from ees_mpi.arrays import Floats
from ees_mpi.commands.verify import spaced
from ees_mpi.errors import scipy_stats
from ees_mpi.run.file import Run

INK = "#010203"  # of axes and texts: the page replaces it by its own color, light or dark
COLORS = ("#3a8fd9", "#ee7f1a", "#3aa655", "#d9534f", "#9673c9", "#a9745b", "#e07cc0", "#8c96a0")  # on white and black
LOOK = {  # settings of matplotlib, for `style.drawing`
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    "svg.fonttype": "none",
    "svg.hashsalt": "ees_mpi",  # the same page every time
    "savefig.transparent": True,
}
BINS = {1: 96, 2: 41}  # cells along an axis, for one and for two numbers; 41 is odd: the origin is inside a cell
FRAMES = {1: 240, 2: 120}  # the largest number of generations on the page
FEWEST = 20  # of them for each of several runs
TAIL = 0.25  # percent at either end of a generation that may lie beyond the limits
TALL = 60  # pixels of a histogram
Frame = tuple[str, str]  # axes as SVG, and the place of a picture inside of them as CSS


def color(place: int) -> Any:
    """Return a color (red, green, blue, from 0 to 1) by its place."""
    from matplotlib.colors import to_rgb

    return np.array(to_rgb(COLORS[place % len(COLORS)]))


def key(place: int) -> str:
    """Return a colored square for a legend."""
    return f'<span class="key" style="background:{COLORS[place % len(COLORS)]}"></span>'


def chart(
    title: str,
    lines: Mapping[str, Sequence[Floats]],
    legend: bool = False,
    at: Sequence[float] = (),
    level: float | None = None,
) -> str:
    """Return a figure with series over generations, of each name one or more; values that are not finite leave a gap.

    Several series of a name are thin lines, with their mean and its interval of 95 percent. The text is empty if there
    is nothing to see: fewer than two finite values, or zeros only.

    at: the stds of the values, if these are no generations; level: a value to mark
    """
    groups = [[np.where(np.isfinite(row), row, np.nan) for row in rows] for rows in lines.values()]
    drawn = [row for rows in groups for row in rows]
    known = np.concatenate([row[np.isfinite(row)] for row in drawn])
    if max(np.isfinite(row).sum() for row in drawn) < 2 or not known.any():
        return ""
    figure, panel = _axes(3.4, 1.9, (0.15, 0.2, 0.82, 0.74))
    for place, rows in enumerate(groups):
        thin = {"linewidth": 0.6, "alpha": 0.5} if len(rows) > 1 else {}
        for row in rows:
            _draw(panel, row, color=color(place), **thin)
    if level is not None:
        panel.axhline(level, color=INK, linewidth=0.8, linestyle="--")
    ends = panel.get_ylim()  # the interval of two seeds may be far longer
    for place, rows in enumerate(groups):
        if len(rows) > 1:
            stacked = np.stack([row[: min(map(len, rows))] for row in rows])
            _draw(panel, stacked.mean(axis=0), color=color(place))
            low, high = interval_of_mean(stacked)
            there = np.flatnonzero(np.isfinite(low))
            panel.fill_between(there, low[there], high[there], color=color(place), alpha=0.2, linewidth=0)
    panel.set(xlim=(0, max(map(len, drawn)) - 1), ylim=ends)
    logarithmic = known.min() > 0 and known.max() / known.min() > 1e3
    if logarithmic:
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter("{x:g}")  # that of matplotlib writes powers of ten as mathematics
        panel.yaxis.set_minor_formatter("")
    _name_rows(panel, at)
    named = [f"<span class='nowrap'>{key(place)}{html.escape(name)}</span>" for place, name in enumerate(lines)]
    keys = " ".join(named) if legend else ""
    more = " (logarithmic)" if logarithmic else ""
    return f"<figure><b>{html.escape(title)}</b>{more}{keys}{_svg(figure, panel)}</figure>"


def _draw(panel: Axes, values: Floats, **look: Any) -> None:
    """Draw a series; if few of its values are known, their points are connected."""
    seen = np.flatnonzero(np.isfinite(values))
    shown = seen if len(seen) <= len(values) / 2 else np.arange(len(values))
    panel.plot(shown, values[shown], marker="." if len(seen) < 60 else None, markersize=3, **look)


def interval_of_mean(rows: Floats) -> tuple[Floats, Floats]:
    """Return the interval of 95 percent (Student's t) of the mean over runs, of numbers [run, ...]."""
    count = len(rows)
    either_side = scipy_stats().t.ppf(0.975, count - 1) * rows.std(axis=0, ddof=1) / math.sqrt(count)
    return rows.mean(axis=0) - either_side, rows.mean(axis=0) + either_side


def _name_rows(panel: Axes, at: Sequence[float]) -> None:
    """Name the horizontal axis: generations, or the stds of a study."""
    panel.set_xlabel("std" if at else "generation")
    if at:
        panel.set_xticks(range(len(at)), [f"{std:g}" for std in at])
    else:
        whole_numbers(panel.xaxis)


def _axes(width: float, height: float, place: tuple[float, float, float, float]) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    return figure, figure.add_axes(place)


def _svg(figure: Figure, panel: Axes, mark: bool = True) -> str:
    """Return a figure as SVG inside the page, with a mark that the slider moves from generation 0 on."""
    low, high = panel.get_xlim()
    points = 72 * figure.get_figwidth() * panel.get_position().width
    if mark:
        panel.axvline(0, color=INK, linewidth=1.2, gid="mark")
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    return text.replace('id="mark"', f'class="mark" data-step="{points / (high - low):.4f}"')


def png(pixels: Any) -> str:
    """Return a picture [height, width, 3 or 4] as the data: address of a PNG."""
    from matplotlib.image import imsave

    buffer = io.BytesIO()
    imsave(buffer, pixels, format="png")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def behaviors(runs: Sequence[Run], names: Sequence[str]) -> tuple[list[dict[str, Any]], str, str, str]:
    """Return the frames of the slider for each run, the axes as HTML, three moments of each run, and a caption.

    All runs have the same cells and colors.
    """
    width, columns = runs[0].metric_settings.axes, _columns(runs[0])
    most = max(FRAMES[len(columns)] // len(runs), FEWEST)
    kept = [np.array(spaced(run.generations, most)) for run in runs]
    ends = limits(runs[0], *_spread(runs, kept, columns))
    pairs = list(zip(runs, kept, strict=True))
    counts = [np.stack([_counts(run, g, columns, ends) for g in chosen]) for run, chosen in pairs]
    highest = max(2, *(int(cells.sum(axis=1).max()) for cells in counts))  # individuals in a cell
    shown: list[dict[str, Any]] = [
        {"name": name, "last": run.generations - 1, "frames": _frames(run, chosen, cells, highest)}
        for run, name, chosen, cells in zip(runs, names, kept, counts, strict=True)
    ]
    labels = [axis_names(runs[0])[column] for column in columns]
    frame = _plane(labels, ends) if len(columns) == 2 else _histogram(labels[0], ends[0], highest)
    over_time = "" if len(columns) == 2 else _line(labels[0], ends[0], runs, kept, counts, highest)
    maps = over_time + _framed(frame, 'id="frame"')  # the slider chooses its picture
    three = "".join(_moments(place, each["frames"], frame) for place, each in enumerate(shown))
    what = "final positions" if has_positions(runs[0]) else "behaviours"
    rows = "individuals, the mutations of a generation"
    if not runs[0].config.population.has_individuals:
        what, rows = f"mean {what}", "rollouts of each task, after its gradient step"
    caption = f"The {what} of the {rows}. A stronger colour means more of them in a cell, on a logarithmic scale"
    caption += "; the colour is that of the most frequent component." if counts[0].shape[1] > 1 else "."
    caption += " Those beyond the edges count in the nearest cell."
    if max(run.generations for run in runs) > most:
        caption += f" At most {most} generations of a run are kept here."
    if width > 2:
        caption += f" Of {width} numbers, the map shows the two that vary most in the last generation."
    if (starts := runs[0].config.task.rollouts) > 1:
        caption += f" Each individual runs from {starts} starts, and each of its rollouts is shown."
    return shown, maps, three, caption


def _places(run: Run, generation: int, columns: Any = slice(None)) -> tuple[Floats, Any]:
    """Return some numbers of where the valid rollouts of a generation end, and the component of each.

    A mean over several starts may be a place where no rollout ends.
    """
    sample = read_sample(run, generation)
    return sample.rollouts[:, columns], np.repeat(sample.parent, sample.by_start.shape[1])


def _columns(run: Run) -> list[int]:
    """Return the one or two numbers of a behavior that are shown: those that vary most in the last generation."""
    ends, _ = _places(run, run.generations - 1)
    spread = ends.std(axis=0) if len(ends) else np.zeros(ends.shape[1])
    return sorted(np.argsort(-spread, kind="stable")[:2].tolist())


def _spread(runs: Sequence[Run], kept: Sequence[Any], columns: list[int]) -> tuple[Floats, Floats]:
    """Return the lowest and the highest behaviors of all shown generations, without a few outliers."""
    every = (_places(run, g, columns)[0] for run, chosen in zip(runs, kept, strict=True) for g in chosen)
    limits = np.array([np.percentile(rows, [TAIL, 100 - TAIL], axis=0) for rows in every if len(rows)])
    if not len(limits):
        return np.zeros(len(columns)), np.zeros(len(columns))
    return limits[:, 0].min(axis=0), limits[:, 1].max(axis=0)


def _counts(run: Run, generation: int, columns: list[int], ends: Sequence[tuple[float, float]]) -> Any:
    """Return the number of individuals [component, cells along x (and y)]; those beyond the limits at the edges."""
    place, parent = _places(run, generation, columns)
    place = np.clip(place, *np.transpose(ends))
    members = [place[parent == component] for component in range(run.config.population.components)]
    return np.stack([np.histogramdd(rows, BINS[len(columns)], ends)[0] for rows in members])


def _shades(counts: Any, highest: int) -> Any:
    """Return colors [cells ..., 4] of counts [component, cells ...]: a color for each component, opaque if many."""
    total, most = counts.sum(axis=0), counts.argmax(axis=0)
    strength = 0.4 + 0.6 * np.log(np.maximum(total, 1)) / np.log(highest)
    colors = np.stack([color(place) for place in range(len(counts))])[most]
    return np.concatenate([colors, np.where(total > 0, strength, 0.0)[..., None]], axis=-1)


def _frames(run: Run, kept: Any, counts: Any, highest: int) -> list[dict[str, Any]]:
    """Return a picture and the main numbers of each shown generation."""
    frames, known = [], stds(run)
    for g, cells in zip(kept.tolist(), counts, strict=True):
        shown = cells.sum() / run.config.task.rollouts
        facts: dict[str, float | None] = {f"{run.config.population.row_name}s": float(shown)}
        for name in metrics.in_table("report", run.metric_settings):
            value = float(run[name][g]) if name in run else math.nan
            facts[metrics.title(name)] = value if np.isfinite(value) else None
        if cells.ndim == 3:
            picture = _shades(cells, highest).swapaxes(0, 1)[::-1]
        else:
            height = np.ceil(cells.sum(axis=0) / highest * TALL)
            filled = height > np.arange(TALL)[::-1, None]
            picture = np.concatenate([np.broadcast_to(color(1), (*filled.shape, 3)), filled[..., None]], axis=-1)
        named = {"std": f"{known[g]:g}"} if known else {}
        frames.append({"g": g, **named, "image": png(np.round(255 * picture).astype(np.uint8)), "facts": facts})
    return frames


def _moments(number: int, frames: Sequence[dict[str, Any]], frame: Frame) -> str:
    """Return the behaviours of a run in the first, a middle and the last generation."""
    figures = ""
    for place in sorted({0, len(frames) // 2, len(frames) - 1}):
        shown = frames[place]
        title = f"std {shown['std']}" if "std" in shown else f"generation {shown['g']}"
        picture = _framed(frame, f'src="{shown["image"]}"')
        figures += f"<figure><b>{title}</b>{picture}</figure>"
    return f'<div class="moments" data-run="{number}">{figures}</div>'


def _framed(frame: Frame, source: str) -> str:
    """Return axes with a picture inside of them."""
    axes, place = frame
    return f'<div class="axes">{axes}<img {source} alt="behaviours of a generation" style="{place}"></div>'


def _frame(figure: Figure, panel: Axes) -> Frame:
    x, y, width, height = (100 * share for share in panel.get_position().bounds)
    place = f"left:{x:.3f}%;top:{100 - y - height:.3f}%;width:{width:.3f}%;height:{height:.3f}%"
    return _svg(figure, panel, mark=False), place


def _plane(names: Sequence[str], ends: Sequence[tuple[float, float]]) -> Frame:
    figure, panel = _axes(4.0, 3.8, (0.17, 0.12, 0.81, 0.86))
    panel.set(xlim=ends[0], ylim=ends[1], xlabel=names[0], ylabel=names[1])
    for draw, (low, high) in zip((panel.axvline, panel.axhline), ends, strict=True):
        if low < 0 < high:
            draw(0, color=INK, linewidth=0.5, linestyle=":")
    return _frame(figure, panel)


def _histogram(name: str, ends: tuple[float, float], highest: int) -> Frame:
    figure, panel = _axes(4.0, 2.6, (0.17, 0.16, 0.81, 0.82))
    panel.set(xlim=ends, ylim=(0, highest), xlabel=name, ylabel="individuals")
    whole_numbers(panel.yaxis)
    return _frame(figure, panel)


def _line(
    name: str, ends: tuple[float, float], runs: Sequence[Run], kept: Sequence[Any], counts: Sequence[Any], highest: int
) -> str:
    """Return a map of all generations for each run."""
    maps = []
    for number, (run, chosen, cells) in enumerate(zip(runs, kept, counts, strict=True)):
        figure, panel = _axes(4.0, 2.6, (0.17, 0.16, 0.81, 0.82))
        rows = np.searchsorted(chosen, np.arange(run.generations))  # a generation that is not kept is like the next
        image = _shades(cells.swapaxes(0, 1), highest)[rows].swapaxes(0, 1)
        extent = (-0.5, run.generations - 0.5, *ends)
        panel.imshow(image, extent=extent, aspect="auto", origin="lower", interpolation="nearest")
        panel.set(ylabel=name)
        _name_rows(panel, stds(run))
        maps.append(f'<div class="axes" data-run="{number}">{_svg(figure, panel)}</div>')
    return "".join(maps)
