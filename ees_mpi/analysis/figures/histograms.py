"""Figures 3 and S5 of the paper: final positions of mutations of EES and MAML, at the same std and at a smaller one."""

from collections.abc import Sequence

import numpy as np

from ees_mpi.analysis.figures.style import Figure, grid
from ees_mpi.analysis.labels import label
from ees_mpi.analysis.offspring import check_one_task, read_offspring
from ees_mpi.errors import RunFileError
from ees_mpi.outcomes import Floats
from ees_mpi.store.reader import Run

BINS = 60


def maml(runs: Sequence[Run]) -> Figure:
    """Draw figures 3 and S5: a panel for each algorithm and std, with a histogram for each seed."""
    check_one_task(runs)
    groups: dict[tuple[str, float], list[Floats]] = {}
    for run in runs:
        position = read_offspring(run).position
        if position.shape[1] != 1:
            raise RunFileError(f"{run.path}: expected offspring with a behavior of one number")
        groups.setdefault((label(run), run.config.population.std), []).append(position[:, 0])
    # MAML last, as in the paper; then the smaller stds.
    order = sorted(groups, key=lambda key: (-key[1], key[0] == "MAML", key[0]))
    limit = max(float(np.abs(x).max()) for rows in groups.values() for x in rows) or 1.0
    edges = np.linspace(-limit, limit, BINS + 1)
    figure, panels = grid(len(order), 3, 2.1, sharex=True, sharey=True)
    for panel, (name, std) in zip(panels, order, strict=True):
        rows = groups[name, std]
        for x, shade in zip(rows, np.linspace(0.3, 0.7, len(rows)), strict=True):
            shares = np.histogram(x, edges)[0] / len(x)
            panel.stairs(shares, edges, color=str(shade), fill=len(rows) == 1, linewidth=0.7)
        panel.axvline(0, color="0.5", linewidth=0.5, linestyle=":")
        seeds = f", n = {len(rows)}" if len(rows) > 1 else ""
        panel.set(title=f"{name}\nstd {std:g}{seeds}", xlabel="final $x$", xlim=(-limit, limit))
    for panel in panels[::3]:
        panel.set_ylabel("share of offspring")
    return figure
