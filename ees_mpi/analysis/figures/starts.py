"""The figure of `ees-mpi measure --starts`: where each mutation ends from each start."""

import textwrap
from collections.abc import Sequence

import numpy as np

from ees_mpi.analysis.figures.style import Figure, grid
from ees_mpi.analysis.labels import label
from ees_mpi.analysis.numbers.heritability import heritability, measured_stds, places_of
from ees_mpi.analysis.offspring import axis_names
from ees_mpi.store.reader import Run

COLUMNS = 4


def starts(runs: Sequence[Run]) -> Figure:
    """Draw a panel for each file, std and axis: rows are mutations, sorted by their mean, columns are starts."""
    shown = [
        (f"{label(run)}, std {std:g}", axis, places_of(run, row), number)
        for run in runs
        for row, std in enumerate(measured_stds(run))
        for number, axis in enumerate(axis_names(run))
    ]
    figure, panels = grid(len(shown), COLUMNS, 2.8)
    farthest = max(float(np.abs(places).max()) for _, _, places, _ in shown)
    for panel, (title, axis, places, number) in zip(panels, shown, strict=True):
        values = places[..., number]
        image = panel.imshow(
            values[np.argsort(values.mean(axis=1))],
            aspect="auto",
            interpolation="none",
            cmap="RdBu",
            vmin=-farthest,
            vmax=farthest,
        )
        found = heritability(places[..., number : number + 1])
        numbers = f"{axis}: heritable variance {found.mutation:.3g}, share {found.share:.2f}"
        panel.set_title("\n".join(textwrap.fill(line, 26) for line in (title, numbers)), fontsize=7)
        panel.set(xlabel="start", xticks=[], yticks=[])
    for first in panels[::COLUMNS]:
        first.set_ylabel("mutation, by its mean place")
    figure.colorbar(image, ax=panels, label="final place")
    return figure
