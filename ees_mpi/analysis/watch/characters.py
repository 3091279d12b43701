"""Drawing with characters: bars, sparklines and histograms for a terminal."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ees_mpi.outcomes import Floats


class Ink(NamedTuple):
    """The characters of a terminal, from little to much."""

    steps: str
    shades: str
    full: str
    empty: str


FINE = Ink("▁▂▃▄▅▆▇█", " ░▒▓█", "█", "░")
PLAIN = Ink("_.-=+*#@", " .+#@", "#", ".")  # where the terminal has no more than ASCII


def ink(encoding: str | None) -> Ink:
    """Choose the characters that an encoding has."""
    try:
        "".join(FINE).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return FINE


def bar(share: float, width: int, pen: Ink) -> str:
    """Draw how much of a whole is done."""
    done = round(min(max(share, 0.0), 1.0) * width)
    return pen.full * done + pen.empty * (width - done)


def sparkline(values: ArrayLike, width: int, pen: Ink) -> str:
    """Draw a series in one line, means of neighbours where it is longer than the line; blank where not finite."""
    series = np.asarray(values, np.float64)
    finite = np.isfinite(series)
    if not finite.any():
        return " " * min(width, len(series))
    bins = np.array_split(np.where(finite, series, np.nan), min(width, len(series)))
    means = np.array([part[np.isfinite(part)].mean() if np.isfinite(part).any() else np.nan for part in bins])
    low, high = np.nanmin(means), np.nanmax(means)
    scale = (len(pen.steps) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if np.isnan(v) else pen.steps[round((v - low) * scale)] for v in means)


def histogram(values: Floats, width: int, height: int, pen: Ink) -> list[str]:
    """Draw how numbers [n] are spread: columns of some height over an axis with its ends and, if inside, 0."""
    low, high = _range(values)
    counts, _ = np.histogram(values, width, (low, high))
    levels = np.ceil(counts / max(counts.max(), 1) * height * len(pen.steps)).astype(int)
    lines = []
    for row in reversed(range(height)):
        rest = np.clip(levels - row * len(pen.steps), 0, len(pen.steps))
        lines.append("".join(pen.steps[r - 1] if r else " " for r in rest))
    return [*lines, _axis(low, high, width)]


def _axis(low: float, high: float, width: int) -> str:
    left, right = f"{low:.4g}", f"{high:.4g}"
    axis = list(f"{left}{' ' * max(1, width - len(left) - len(right))}{right}")
    zero = round(-low / (high - low) * (width - 1))
    if len(left) < zero < width - len(right) - 1:
        axis[zero] = "0"
    return "".join(axis)


def heatmap(places: Floats, columns: int, pen: Ink) -> list[str]:
    """Draw where points [n, 2] lie, with equal axes and the origin in the middle; two characters make a square."""
    reach = float(np.abs(places).max()) or 1.0
    counts, _, _ = np.histogram2d(places[:, 1], places[:, 0], columns, ((-reach, reach), (-reach, reach)))
    top = np.log1p(max(counts.max(), 1))
    levels = np.ceil(np.log1p(counts) / top * (len(pen.shades) - 1)).astype(int)
    middle = columns // 2
    lines = []
    for row in reversed(range(columns)):
        cells = [pen.shades[level] * 2 for level in levels[row]]
        if row == middle and not levels[row, middle]:
            cells[middle] = "+ "
        lines.append("".join(cells))
    return [*lines, _axis(-reach, reach, 2 * columns)]


def _range(values: Floats) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay rows out in columns."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
