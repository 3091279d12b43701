"""The figure of `ees-mpi signal`: the share of signal in the gradients and the lengths of the steps."""

from collections.abc import Sequence

import numpy as np

from ees_mpi.analysis.figures.style import Figure, grid, look, whole_numbers
from ees_mpi.analysis.labels import label
from ees_mpi.commands.signal import choose, measure_signal
from ees_mpi.ranks import Ranks
from ees_mpi.store.reader import Run

MOST = 12  # generations of a run


def signal(runs: Sequence[Run]) -> Figure:
    """Draw the shares with their intervals of 95 percent, and the steps, of some generations of each run."""
    figure, (shares, steps) = grid(2, 2, 2.4)
    for place, run in enumerate(runs):
        chosen = choose(run, None, 1)
        spaced = sorted({chosen[round(each)] for each in np.linspace(0, len(chosen) - 1, MOST)})
        found = [each for each in measure_signal(Ranks(), run, spaced) if np.isfinite(each.share)]
        x = np.array([each.generation for each in found]) + 0.15 * place  # so that bars do not cover each other
        share = 100 * np.array([each.share for each in found])
        limits = 100 * np.array([each.share_interval for each in found]).reshape(-1, 2)
        color, name = look(place)["color"], f"{label(run)}, N = {run.config.population.size:,}"
        shares.errorbar(x, share, np.abs(limits.T - share), color=color, marker=".", linestyle="", elinewidth=0.6)
        steps.plot(x, [each.step_mutations for each in found], **look(place), marker=".", label=name)
    shares.set(xlabel="generation", ylabel="signal in the gradient, %", ylim=(0, None))
    steps.set(xlabel="generation", ylabel="length of the step, mutations", ylim=(0, None))
    for panel in (shares, steps):
        whole_numbers(panel.xaxis)
    steps.legend()
    return figure
