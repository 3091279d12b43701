"""What a run is called in tables and figures."""

import json
from pathlib import Path

from ees_mpi.config import FAMILIES
from ees_mpi.errors import EesError
from ees_mpi.store.reader import Run, open_run

ALGORITHMS = {"fitness": "standard ES", "maxvar": "MaxVar-EES", "maxent": "MaxEnt-EES", "maml": "MAML"}


def algorithm(objective: str, method: str = "") -> str:
    """Return the paper's name of what an objective, or another method than evolution, makes."""
    name = method if method == "maml" else objective
    return ALGORITHMS.get(name, name)


def label(run: Run) -> str:
    """Return what a run is called: its algorithm, how many means it has, what it started from."""
    config = run.config
    name = algorithm(FAMILIES["objective"].name_of(config.objective), config.method)
    means = run["mean"].shape[1]
    origin = "" if run.attributes.get("kind") == "sample" else started_from(run)
    if means > 1:
        return f"{name}, split in {means}" if origin else f"{name}, {means} components"
    return f"{name} from {origin}" if origin else name


def started_from(run: Run) -> str:
    """Return what the run is called whose means this one started from; empty if it started by itself."""
    note = json.loads(str(run.attributes.get("started_from") or "null"))
    if not note:
        return ""
    if "objective" in note:
        return algorithm(note["objective"], note.get("method", ""))
    try:  # an older file: its note has a path only
        with open_run(Path(note["path"])) as origin:
            return label(origin)
    except (EesError, KeyError):
        return "a trained mean"
