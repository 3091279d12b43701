"""Small pictures for a web page, made of text alone: line charts as SVG, pictures as PNG."""

import base64
import html
import math
import struct
import zlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ees_mpi.contracts import Pixels
from ees_mpi.outcomes import Floats

WIDTH, HEIGHT = 330, 180
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 8, 32
COLORS = ("#2563a8", "#c8531b", "#4b8b3b", "#7a5195")
POINTS = 500  # of a line, at most
LOGARITHMIC = 1e3  # the ratio of values from which on they are drawn so


def chart(title: str, lines: Mapping[str, Floats], unit: str = "") -> str:
    """Draw series over generations as a figure; a gap where a value is not finite."""
    count = max(len(values) for values in lines.values())
    shown = {name: _thin(values) for name, values in lines.items()}
    finite = np.concatenate([values[np.isfinite(values)] for _, values in shown.values()])
    keys = "".join(key(color) + html.escape(name) for name, color in zip(lines, COLORS, strict=False) if len(lines) > 1)
    logarithmic = len(finite) > 0 and finite.min() > 0 and finite.max() / finite.min() > LOGARITHMIC
    more = ", ".join(filter(None, (unit, "logarithmic" if logarithmic else "")))
    caption = f"<figcaption><b>{html.escape(title)}</b>{f' ({more})' if more else ''}{keys}</figcaption>"
    if not len(finite):
        return f"<figure>{caption}<p class='faint'>not finite in any generation</p></figure>"
    scale = _Scale(finite, logarithmic)
    parts = [
        _path(places, values, count, scale, color)
        for (places, values), color in zip(shown.values(), COLORS, strict=False)
    ]
    return f"<figure>{caption}{_frame(count, scale, parts)}</figure>"


def key(color: str) -> str:
    """Draw a patch of a colour, to stand before its meaning."""
    return f'<span class="key" style="background:{color}"></span>'


def _thin(values: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Keep some of many points, the first and the last among them; of a value seen now and then, where it was seen."""
    values = np.asarray(values, np.float64)
    seen = np.flatnonzero(np.isfinite(values))
    known = seen if 0 < len(seen) <= len(values) / 2 else np.arange(len(values))
    places = known[np.unique(np.linspace(0, len(known) - 1, min(POINTS, len(known))).round().astype(np.int64))]
    return places, values[places]


class _Scale:
    """The vertical axis: its ticks, and where a value lies on it."""

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
            last = max(last, first + 1)
            self.ticks = [step * k for k in range(first, last + 1)]
            self._low, self._high = self.ticks[0], self.ticks[-1]

    def y(self, value: float) -> float:
        share = ((math.log10(value) if self._log else value) - self._low) / (self._high - self._low)
        return TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)


def nice(step: float) -> float:
    """Round a step up to 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= step * (1 - 1e-9))


def _x(place: float, count: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * place / max(count - 1, 1)


def _path(places: NDArray[np.int64], values: Floats, count: int, scale: _Scale, color: str) -> str:
    pen, words = "M", []
    for place, value in zip(places.tolist(), values.tolist(), strict=True):
        if math.isfinite(value):
            words.append(f"{pen}{_x(place, count):.1f} {scale.y(value):.1f}")
            pen = "L"
        else:
            pen = "M"
    dots = ""
    if np.isfinite(values).sum() < 60:  # few points, and perhaps none that a line would join
        kept = [(p, v) for p, v in zip(places.tolist(), values.tolist(), strict=True) if math.isfinite(v)]
        dots = "".join(f'<circle cx="{_x(p, count):.1f}" cy="{scale.y(v):.1f}" r="1.8"/>' for p, v in kept)
    line = f'<path d="{"".join(words)}" fill="none" stroke="{color}" stroke-width="1.6"/>'
    return f'{line}<g fill="{color}">{dots}</g>'


def _frame(count: int, scale: _Scale, parts: list[str]) -> str:
    """Put lines into axes with ticks, and a mark that the page can move to a generation."""
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
    data = f'data-first="{LEFT}" data-end="{WIDTH - RIGHT}"'
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" {data}>{grid}{ends}{"".join(parts)}{mark}</svg>'


def _number(value: float) -> str:
    return f"{value:.3g}" if value and not 1e-3 <= abs(value) < 1e5 else f"{value:.6g}"


def png(pixels: Pixels) -> str:
    """Write a picture [height, width, 3] as the data: address of a PNG."""
    height, width, _ = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)  # filter 0: none
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    ]
    chunks = [struct.pack(">I", len(d)) + kind + d + struct.pack(">I", zlib.crc32(kind + d)) for kind, d in parts]
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode()
