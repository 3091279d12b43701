"""The subject of a file: a training, or the learned mean whose offspring are studied."""

import json
from dataclasses import dataclass
from typing import Any

from ees_mpi.errors import RunFileError
from ees_mpi.store.reader import Run
from ees_mpi.store.safety import damage_reported


@dataclass(frozen=True)
class Subject:
    """The run whose offspring the rows of a file are. The rows are its generations, or the settings of a study."""

    run_id: str
    algorithm: str  # the name of the objective or the method, or the user's label
    generation: int | None = None  # that a study is of; None: the rows are generations of training

    @property
    def trained(self) -> bool:
        """Whether the rows are generations of training."""
        return self.generation is None


def subject(run: Run) -> Subject:
    """Return the subject of a file."""
    own = run.config.method.algorithm
    if run.attributes["kind"] == "run":
        return Subject(run.run_id, own)
    note = starting_note(run)
    return Subject(str(note.get("run_id", run.run_id)), str(note.get("objective", own)), int(note.get("generation", 0)))


def starting_note(run: Run) -> dict[str, Any]:
    """Return the file's note on the run that it started from; empty if it started from random means."""
    return json.loads(str(run.attributes.get("started_from") or "null")) or {}


def stds(run: Run) -> list[float]:
    """Return the standard deviation of each row of a study; empty for a training.

    Files of older versions have no note on it: those of `measure` log it, and those of `sample` have one row.
    """
    if subject(run).trained:
        return []
    note = starting_note(run)
    if "setting" not in note:
        return [float(std.flat[0]) for std in run["std"]] if "std" in run.names else [float(run.config.population.std)]
    with damage_reported(run.path):
        values = [float(std) for std in note["setting"]["std"]]
        if len(values) != run.generations:
            raise ValueError(f"it has {run.generations} rows and {len(values)} settings")
    return values


def check_training(run: Run) -> None:
    """Raise a RunFileError if a file is a study, which has no generations of training."""
    if not subject(run).trained:
        raise RunFileError(f"{run.path} is a sample, which has no training to show over generations; give its run")
