"""The figure of `ees-mpi measure`: evolvability against the standard deviation of the mutations."""

from collections.abc import Sequence

import numpy as np

from ees_mpi.analysis.figures.style import Figure, grid, look, whole_numbers
from ees_mpi.analysis.labels import label
from ees_mpi.analysis.numbers.measurement import SHOWN, Facts, measured
from ees_mpi.analysis.offspring import check_one_task
from ees_mpi.store.reader import Run


def measurement(runs: Sequence[Run]) -> Figure:
    """Draw a panel for each measure, with a curve for each label: the mean over its files, and their range."""
    check_one_task(runs)
    groups: dict[str, list[list[Facts]]] = {}
    for run in runs:
        groups.setdefault(label(run), []).append(sorted(measured(run), key=lambda row: float(row["std"])))
    everywhere = sorted({row["std"] for files in groups.values() for rows in files for row in rows})
    figure, (*panels, spare) = grid(len(SHOWN) + 1, 3, 2.0)
    for panel, (name, (_, axis)) in zip(panels, SHOWN.items(), strict=True):
        for place, (title, files) in enumerate(groups.items()):
            common = sorted(set.intersection(*({row["std"] for row in rows} for rows in files)))
            values = np.array([[row[name] for row in rows if row["std"] in common] for rows in files])
            shown = title if len(files) == 1 else f"{title}, n = {len(files)}"
            panel.plot(common, values.mean(axis=0), **look(place), marker=".", label=shown)
            panel.fill_between(
                common, values.min(axis=0), values.max(axis=0), color=look(place)["color"], alpha=0.15, linewidth=0
            )
        panel.set(xlabel="std of the mutations", ylabel=axis, xscale="log")
        panel.set_xticks(everywhere, [f"{std:g}" for std in everywhere])
        panel.minorticks_off()
        if name == "coverage":
            whole_numbers(panel.yaxis)
    spare.set_axis_off()
    spare.legend(*panels[0].get_legend_handles_labels(), loc="center")
    return figure
