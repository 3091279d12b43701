"""Pictures inside a web page: line charts as SVG, photographs as PNG."""

import base64
import html
import math
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ees_mpi.analysis.limits import LARGEST, nice
from ees_mpi.contracts import Pixels
from ees_mpi.outcomes import Floats

WIDTH, HEIGHT = 330, 180
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 8, 32
COLORS = ("#2563a8", "#c8531b", "#4b8b3b", "#7a5195", "#c99700", "#1e2228", "#d1629f", "#2aa3b8")
POINTS = 500  # the largest number of points of a line
LOGARITHMIC = 1e3  # the ratio of values above which the axis is logarithmic


def chart(title: str, lines: Mapping[str, Sequence[Floats]], unit: str = "", legend: bool = True) -> str:
    """Return a figure with series over generations, of each name one or more; values that are not finite leave a gap.

    The text is empty if there is nothing to see: fewer than two finite values, or zeros only.
    """
    drawn = [(_thin(values), color(place)) for place, name in enumerate(lines) for values in lines[name]]
    finite = np.concatenate([values[np.isfinite(values)] for (_, values), _ in drawn])
    if max(np.isfinite(values).sum() for (_, values), _ in drawn) < 2 or not finite.any():
        return ""
    logarithmic = finite.min() > 0 and finite.max() / finite.min() > LOGARITHMIC
    more = ", ".join(filter(None, (unit, "logarithmic" if logarithmic else "")))
    keys = keys_of(lines) if legend and len(lines) > 1 else ""
    caption = f"<figcaption><b>{html.escape(title)}</b>{f' ({more})' if more else ''}{keys}</figcaption>"
    scale, count = _Scale(finite, logarithmic), max(len(values) for rows in lines.values() for values in rows)
    paths = [_path(*line, count, scale, shade) for line, shade in drawn]
    return f"<figure>{caption}{_frame(count, scale, paths)}</figure>"


def color(place: int) -> str:
    """Return the color of a name by its place."""
    return COLORS[place % len(COLORS)]


def keys_of(names: Iterable[str]) -> str:
    """Return a legend: each name with its color."""
    pairs = [(key(color(place)), html.escape(name)) for place, name in enumerate(names)]
    return " ".join(f"<span class='word'>{square}{name}</span>" for square, name in pairs)


def key(shade: str) -> str:
    """Return a colored square for a legend."""
    return f'<span class="key" style="background:{shade}"></span>'


def _thin(values: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Keep at most POINTS points, including the first and the last; of a rare value only finite points."""
    values = np.asarray(values, np.float64)
    drawn = np.where(np.abs(values) < 1 / LARGEST, 0.0, np.clip(values, -LARGEST, LARGEST))
    values = np.where(np.isfinite(values), drawn, values)
    seen = np.flatnonzero(np.isfinite(values))
    known = seen if 0 < len(seen) <= len(values) / 2 else np.arange(len(values))
    places = known[np.unique(np.linspace(0, len(known) - 1, min(POINTS, len(known))).round().astype(np.int64))]
    return places, values[places]


class _Scale:
    """The vertical axis: its ticks, and the height of a value."""

    def __init__(self, finite: Floats, logarithmic: bool):
        self._log = logarithmic
        low, high = float(finite.min()), float(finite.max())
        if logarithmic:
            first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
            self.ticks = [10.0**e for e in range(first, last + 1, max(1, (last - first) // 4))]
            self._low, self._high = math.log10(min(low, self.ticks[0])), math.log10(max(high, self.ticks[-1]))
        else:
            step = nice((high - low) / 4 if high > low else abs(high) or 1.0)
            first, last = math.floor(low / step), math.ceil(high / step)
            self.ticks = [step * k for k in range(first, max(last, first + 1) + 1)]
            self._low, self._high = self.ticks[0], self.ticks[-1]

    def y(self, value: float) -> float:
        share = ((math.log10(value) if self._log else value) - self._low) / (self._high - self._low)
        return TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)


def _path(places: NDArray[np.int64], values: Floats, count: int, scale: _Scale, shade: str) -> str:
    """Return one line, and dots if it has few points."""
    command, words, dots = "M", [], []
    for place, value in zip(places.tolist(), values.tolist(), strict=True):
        if not math.isfinite(value):
            command = "M"
            continue
        x, y = LEFT + (WIDTH - LEFT - RIGHT) * place / max(count - 1, 1), scale.y(value)
        words.append(f"{command}{x:.1f} {y:.1f}")
        dots.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.8"/>')
        command = "L"
    line = f'<path d="{"".join(words)}" fill="none" stroke="{shade}" stroke-width="1.6"/>'
    return f'{line}<g fill="{shade}">{"".join(dots) if len(dots) < 60 else ""}</g>'


def _frame(count: int, scale: _Scale, paths: list[str]) -> str:
    """Return lines inside axes with ticks, and a mark that the page moves to the chosen generation."""
    grid = "".join(
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{scale.y(t):.1f}" y2="{scale.y(t):.1f}" stroke="#e6eaee"/>'
        f'<text x="{LEFT - 5}" y="{scale.y(t) + 4:.1f}" text-anchor="end">{_number(t)}</text>'
        for t in scale.ticks
    )
    floor = HEIGHT - BOTTOM
    ends = f'<text x="{LEFT}" y="{floor + 14}">0</text>' if count > 1 else ""
    ends += f'<text x="{WIDTH - RIGHT}" y="{floor + 14}" text-anchor="end">{count - 1}</text>'
    ends += f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{floor + 28}" text-anchor="middle">generation</text>'
    mark = f'<line class="mark" x1="{LEFT}" x2="{LEFT}" y1="{TOP}" y2="{floor}" stroke="#c8531b" stroke-opacity="0.6"/>'
    data = f'data-first="{LEFT}" data-end="{WIDTH - RIGHT}" data-last="{count - 1}"'
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" {data}>{grid}{ends}{"".join(paths)}{mark}</svg>'


def _number(value: float) -> str:
    return f"{value:.3g}" if value and not 1e-3 <= abs(value) < 1e5 else f"{value:.6g}"


def png(pixels: Pixels) -> str:
    """Return a picture [height, width, 3] as the data: address of a PNG."""
    height, width, _ = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)  # filter 0: none
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b"")]
    chunks = [struct.pack(">I", len(d)) + kind + d + struct.pack(">I", zlib.crc32(kind + d)) for kind, d in parts]
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode()
