"""The numbers of `ees-mpi signal` as a table, for the terminal and for the report."""

import math
from collections.abc import Sequence

from ees_mpi.analysis.numbers.tables import Row
from ees_mpi.commands.signal import Signal

HEADINGS: Row = ("generation", "cosine", "signal", "95 % interval", "equal at N", "95 % interval", "mutations", "nats")
LEGEND = (
    "cosine: of the gradients of two halves; signal: its share of the squared length of the gradient; equal at N: the "
    "population at which signal and noise would be equal; mutations, nats: the length of the step"
)


def table(signals: Sequence[Signal]) -> list[Row]:
    """Return the headings and a row of text for each generation."""
    return [HEADINGS, *(_row(signal) for signal in signals)]


def _row(signal: Signal) -> Row:
    low, high = (_percent(limit) for limit in signal.share_interval)
    least, most = (_count(limit) for limit in signal.equal_population_interval)
    return (
        str(signal.generation),
        "-" if math.isnan(signal.cosine) else f"{signal.cosine:.4f}",
        _percent(signal.share),
        f"{low} to {high}",
        _count(signal.equal_population),
        f"{least} to {most}",
        f"{signal.step_mutations:.3g}",
        f"{signal.step_nats:.3g}",
    )


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.4g} %"


def _count(size: float) -> str:
    if not math.isfinite(size):
        return "inf" if math.isinf(size) else "-"
    return f"{max(1, round(size, 2 - len(str(int(size))))):,.0f}"
