"""Drawing with characters: bars, sparklines, histograms and maps for a terminal."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ees_mpi.analysis.limits import LARGEST, Limits
from ees_mpi.outcomes import Floats


class Characters(NamedTuple):
    """The characters that a terminal can show, from little to much."""

    steps: str
    shades: str
    full: str
    empty: str


FINE = Characters("▁▂▃▄▅▆▇█", " ░▒▓█", "█", "░")
PLAIN = Characters("_.-=+*#@", " .+#@", "#", ".")  # ASCII


def choose(encoding: str | None) -> Characters:
    """Return the best characters of an encoding."""
    try:
        "".join(FINE).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return FINE


def bar(share: float, width: int, characters: Characters) -> str:
    """Draw a progress bar."""
    done = round(min(max(share, 0.0), 1.0) * width)
    return characters.full * done + characters.empty * (width - done)


def sparkline(values: ArrayLike, width: int, characters: Characters) -> str:
    """Draw a series in one line, as means of neighbours if it is longer; blank if a value is not finite."""
    series = np.asarray(values, np.float64)
    bins = [part[np.isfinite(part)] for part in np.array_split(series, min(width, len(series)))]
    bins = [np.clip(part, -LARGEST, LARGEST) for part in bins]
    means = np.array([part.mean() if len(part) else np.nan for part in bins])
    if np.isnan(means).all():
        return " " * len(means)
    low, high = np.nanmin(means), np.nanmax(means)
    scale = (len(characters.steps) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if np.isnan(v) else characters.steps[round((v - low) * scale)] for v in means)


def histogram(
    values: Floats, limits: tuple[float, float], width: int, height: int, characters: Characters
) -> list[str]:
    """Draw the distribution of numbers [n] as columns above an axis."""
    steps = characters.steps
    counts, _ = np.histogram(np.clip(values, *limits), width, limits)
    levels = np.ceil(counts / max(counts.max(), 1) * height * len(steps)).astype(int)
    lines = []
    for row in reversed(range(height)):
        rest = np.clip(levels - row * len(steps), 0, len(steps))
        lines.append("".join(steps[r - 1] if r else " " for r in rest))
    return [*lines, _axis(*limits, width)]


def _axis(low: float, high: float, width: int) -> str:
    """Draw the ends of an axis, and 0 if it lies between them."""
    left, right = f"{low:.6g}", f"{high:.6g}"
    axis = list(f"{left}{' ' * max(1, width - len(left) - len(right))}{right}")
    zero = round(-low / (high - low) * (width - 1))
    if len(left) < zero < width - len(right) - 1:
        axis[zero] = "0"
    return "".join(axis)


def heatmap(points: Floats, limits: Limits, columns: int, characters: Characters) -> list[str]:
    """Draw points [n, 2] on a map, with a mark at the origin if it is the middle; two characters make a square."""
    x, y = (np.clip(points[:, axis], *limits[axis]) for axis in (0, 1))
    counts, _, _ = np.histogram2d(y, x, columns, (limits[1], limits[0]))
    levels = np.ceil(np.log1p(counts) / np.log1p(max(counts.max(), 1)) * (len(characters.shades) - 1)).astype(int)
    middle = columns // 2
    lines = []
    for row in reversed(range(columns)):
        cells = [characters.shades[level] * 2 for level in levels[row]]
        if row == middle and not levels[row, middle] and all(low == -high for low, high in limits):
            cells[middle] = "+ "
        lines.append("".join(cells))
    return [*lines, _axis(*limits[0], 2 * columns)]
