"""The figures of `ees-mpi measure` and of `ees-mpi signal`."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from ees_mpi.analysis.figures.style import Figure, grid, look, whole_numbers
from ees_mpi.analysis.labels import label
from ees_mpi.analysis.numbers.summaries import AT_STDS, at_stds
from ees_mpi.analysis.offspring import check_one_task
from ees_mpi.commands.signal import choose, measure_signal
from ees_mpi.ranks import Ranks
from ees_mpi.store.reader import Run

MOST = 12  # generations of a run, for the signal


def measure(runs: Sequence[Run]) -> Figure:
    """Draw a panel for each measure, with a curve for each label: the mean over its files, and their range."""
    check_one_task(runs)
    groups: dict[str, list[list[dict[str, Any]]]] = {}
    for run in runs:
        groups.setdefault(label(run), []).append(at_stds(run))
    everywhere = sorted({row["std"] for files in groups.values() for rows in files for row in rows})
    figure, (*panels, spare) = grid(len(AT_STDS) + 1, 3, 2.0)
    for panel, (name, (_, axis)) in zip(panels, AT_STDS.items(), strict=True):
        for place, (title, files) in enumerate(groups.items()):
            values: dict[float, list[float]] = {}
            for row in sorted(chain(*files), key=lambda row: float(row["std"])):
                values.setdefault(row["std"], []).append(row[name])
            means, lowest, highest = (np.array([how(at) for at in values.values()]) for how in (np.mean, min, max))
            shown = title if len(files) == 1 else f"{title}, n = {len(files)}"
            panel.plot(list(values), means, **look(place), marker=".", label=shown)
            panel.fill_between(list(values), lowest, highest, color=look(place)["color"], alpha=0.15, linewidth=0)
        panel.set(xlabel="std of the mutations", ylabel=axis, xscale="log")
        panel.set_xticks(everywhere, [f"{std:g}" for std in everywhere])
        panel.minorticks_off()
        if name == "coverage":
            whole_numbers(panel.yaxis)
    spare.set_axis_off()
    spare.legend(*panels[0].get_legend_handles_labels(), loc="center")
    return figure


def signal(runs: Sequence[Run]) -> Figure:
    """Draw the shares with their intervals of 95 percent, and the steps, of some generations of each run."""
    figure, (shares, steps) = grid(2, 2, 2.4)
    for place, run in enumerate(runs):
        chosen = choose(run, None, 1)
        spaced = sorted({chosen[round(index)] for index in np.linspace(0, len(chosen) - 1, MOST)})
        signals = [point for point in measure_signal(Ranks(), run, spaced) if np.isfinite(point.share)]
        x = np.array([point.generation for point in signals]) + 0.15 * place  # so that bars do not cover each other
        share = 100 * np.array([point.share for point in signals])
        limits = 100 * np.array([point.share_interval for point in signals]).reshape(-1, 2)
        color, name = look(place)["color"], f"{label(run)}, N = {run.config.population.size:,}"
        shares.errorbar(x, share, np.abs(limits.T - share), color=color, marker=".", linestyle="", elinewidth=0.6)
        steps.plot(x, [point.step_mutations for point in signals], **look(place), marker=".", label=name)
    shares.set(xlabel="generation", ylabel="signal in the gradient, %", ylim=(0, None))
    steps.set(xlabel="generation", ylabel="length of the step, mutations", ylim=(0, None))
    for panel in (shares, steps):
        whole_numbers(panel.xaxis)
    steps.legend()
    return figure
