"""Numbers as text for the terminal, and as data for JSON; the table of signals."""

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from ees_mpi.commands.signal import Signal

Row = tuple[str, ...]
SIGNALS: Row = ("generation", "cosine", "signal", "95 % interval", "equal at N", "95 % interval", "mutations", "nats")
SIGNAL_LEGEND = (
    "cosine: of the gradients of two halves; signal: its share of the squared length of the gradient; equal at N: the "
    "population at which signal and noise would be equal; mutations, nats: the length of the step"
)


def number(value: float) -> str:
    """Return a number with four digits."""
    if not math.isfinite(value):
        return "-"
    if value == round(value) and abs(value) < 1e5:
        return f"{value:.0f}"
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:#.4g}".rstrip(".")
    return f"{value:.3e}"


def columns(rows: Sequence[Row]) -> list[str]:
    """Return rows of cells as lines: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join([f"{first:{widths[0]}}", *cells]).rstrip())
    return lines


def to_json(value: Any) -> str:
    """Return data as JSON on one line; NaN and infinities, which JSON does not have, become null."""
    made = msgspec.json.encode(value, enc_hook=lambda number: number.item())  # of numpy
    return msgspec.json.format(made, indent=0).decode()


def signal_rows(signals: Sequence[Signal]) -> list[Row]:
    """Return the headings and a row of text for each generation."""
    rows = [SIGNALS]
    for signal in signals:
        cosine = "-" if math.isnan(signal.cosine) else f"{signal.cosine:.4f}"
        shares = _percent(signal.share), " to ".join(map(_percent, signal.share_interval))
        sizes = _count(signal.equal_population), " to ".join(map(_count, signal.equal_population_interval))
        steps = f"{signal.step_mutations:.3g}", f"{signal.step_nats:.3g}"
        rows.append((str(signal.generation), cosine, *shares, *sizes, *steps))
    return rows


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.4g} %"


def _count(size: float) -> str:
    if not math.isfinite(size):
        return "inf" if math.isinf(size) else "-"
    return f"{max(1, round(size, 2 - len(str(int(size))))):,.0f}"
