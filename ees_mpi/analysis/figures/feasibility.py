"""The figure of the feasibility theorem: two functions, and mutants of one network that flips between them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ees_mpi.analysis.numbers.feasibility import curves
from ees_mpi.store.reader import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def feasibility(runs: Sequence[Run]) -> "Figure":
    """Two given functions, and mutants of one network that flips between them."""
    from matplotlib.figure import Figure

    shown = curves()
    figure = Figure(figsize=(5.0, 2.4), layout="constrained")
    axes = figure.subplots()
    for mutant, up in zip(shown.mutants, shown.up, strict=True):
        axes.plot(shown.x, mutant, color="tab:orange" if up > 0 else "tab:blue", linewidth=0.5, alpha=0.6)
    axes.plot(shown.x, shown.g, color="black", linestyle="--", label="$g$")
    axes.plot(shown.x, shown.h, color="black", linestyle=":", label="$h$")
    axes.set(title=f"{len(shown.mutants)} mutants of one network", xlabel="$x$", ylabel="output", xlim=(0, 1))
    axes.legend(loc="lower left")
    return figure
