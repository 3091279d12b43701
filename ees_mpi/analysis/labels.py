"""The label of a run in tables and figures."""

import json
from pathlib import Path

from ees_mpi.errors import EesError
from ees_mpi.store.reader import Run, open_run

ALGORITHMS = {"fitness": "standard ES", "maxvar": "MaxVar-EES", "maxent": "MaxEnt-EES", "maml": "MAML"}


def algorithm(name: str) -> str:
    """Return the paper's name of an algorithm, from the name of its objective or method."""
    return ALGORITHMS.get(name, name)


def label(run: Run) -> str:
    """Return the label of a run: its algorithm, the number of its means, the run that it started from."""
    config = run.config
    name = algorithm(config.method.algorithm)
    means = run["mean"].shape[1]
    origin = "" if run.attributes.get("kind") == "sample" else started_from(run)
    if means > 1:
        return f"{name}, split in {means}" if origin else f"{name}, {means} components"
    return f"{name} from {origin}" if origin else name


def started_from(run: Run) -> str:
    """Return the label of the run that this one started from; empty if it started from random means."""
    note = json.loads(str(run.attributes.get("started_from") or "null"))
    if not note:
        return ""
    if "objective" in note:
        return algorithm(note["objective"])
    try:  # an older file: its note has a path only
        with open_run(Path(note["path"])) as origin:
            return label(origin)
    except (EesError, KeyError):
        return "a trained mean"
