"""The table of `ees-mpi measure`: the measures of a policy's offspring against the standard deviation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi.analysis.labels import label
from ees_mpi.analysis.numbers.measures import MEASURES, Settings
from ees_mpi.analysis.numbers.tables import columns, number
from ees_mpi.analysis.offspring import read_offspring
from ees_mpi.analysis.subject import stds
from ees_mpi.errors import RunFileError
from ees_mpi.store.reader import Run, open_run

SHOWN = {  # the measures: the heading of a column, and the label of an axis
    "entropy": ("entropy", "entropy, nats"),
    "covariance_trace": ("variance", "variance"),
    "coverage": ("coverage", "coverage, cells"),
    "distance_mean": ("distance", "mean distance"),
    "best_of_40": ("best of 40", "distance of the best of 40"),
}
Facts = dict[str, Any]  # the measures at one standard deviation, by name


def measured(run: Run) -> list[Facts]:
    """Return the measures at each standard deviation; the entropy has the bandwidth of the file's config."""
    settings = Settings(bandwidth=run.config.method.bandwidth)
    if not stds(run):
        raise RunFileError(f"{run.path} is not a file of ees-mpi measure")
    rows = []
    for row, std in enumerate(stds(run)):
        offspring = read_offspring(run, row)
        facts: Facts = {"std": std, "invalid": int((~offspring.outcomes.valid).sum())}
        rows.append(facts | {name: MEASURES[name].compute(offspring, settings) for name in SHOWN})
    return rows


def table(path: Path) -> list[str]:
    """Return the table of a file as lines of text."""
    with open_run(path) as run:
        rows, size, mean = measured(run), run.config.population.size, np.asarray(run["mean_behavior"][0])
        title = f"{label(run)}: {size} offspring at each std; the policy itself ends at {_point(mean)}"
    cells = [("std", *(heading for heading, _ in SHOWN.values()), "invalid")]
    cells += [(f"{row['std']:g}", *(number(row[name]) for name in SHOWN), str(row["invalid"])) for row in rows]
    return [title, *columns(cells)]


def _point(values: Sequence[float] | Any) -> str:
    shown = ", ".join(number(float(value)) for value in values[:4])
    return f"({shown}{', ...' if len(values) > 4 else ''})"
