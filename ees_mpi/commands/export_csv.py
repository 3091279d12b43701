"""`ees-mpi export --csv`: the metrics of a run as a table, one row per generation; arrays: `run.to_xarray()`."""

import csv
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi.errors import RunFileError
from ees_mpi.files import check_writable, written
from ees_mpi.store.reader import Run

VECTORS = ("behavior_variance", "mean_behavior", "objective_value")  # metrics with several numbers per generation


def export_csv(run: Run, out: Path | None) -> Path:
    """Write the metrics, the times and the digests of all generations; return the file."""
    target = out or run.path.with_suffix(".csv")
    check_writable(target, suffixes=[".csv"], sources=[run.path])
    if run.generations == 0:
        raise RunFileError(f"{run.path} has no committed generation yet")
    run.check_all()
    columns: dict[str, Any] = {"generation": np.arange(run.generations)}
    for name in run.names:
        values = np.asarray(run[name][:]) if run[name].shape[1:] == () or name in VECTORS else np.empty(0)
        if values.dtype.kind == "S":
            values = values.astype(str)
        if values.ndim == 1 and len(values):
            columns[name] = values
        columns |= {f"{name}_{place}": column for place, column in enumerate(values.T) if values.ndim == 2}
    with written(target, "w") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return target
