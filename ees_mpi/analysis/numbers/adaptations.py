"""Reading what `ees-mpi adapt` writes, and finding it beside a run file."""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ees_mpi.analysis.labels import algorithm
from ees_mpi.commands.adapt import FORMAT
from ees_mpi.errors import RunFileError
from ees_mpi.store.reader import open_run


@dataclass(frozen=True)
class Adaptation:
    """How far a run came in one direction after adapting to it."""

    path: Path
    run_id: str
    run_path: str
    generation: int  # of the run, that was adapted
    label: str
    task: dict[str, Any]
    direction: float  # degrees
    distance: float  # walked in that direction: the mean of the evaluations
    evaluations: int
    training_steps: int
    adaptation_steps: int


def is_adaptation(path: Path) -> bool:
    """Tell whether a file is one that `adapt` wrote; whatever is wrong with others is for others to say."""
    if not path.is_file():
        return False
    try:
        with h5py.File(path, "r", locking="best-effort") as file:
            return bool(file.attrs.get("format") == FORMAT)
    except OSError:
        return False


def read(path: Path) -> Adaptation:
    """Read an adaptation file."""
    try:
        with h5py.File(path, "r", locking="best-effort") as file:
            about = json.loads(file.attrs["run"])
            config = tomllib.loads(str(file.attrs["config"]))
            scores = np.asarray(file["evaluations/fitness"][:], np.float64)
            direction = float(file.attrs["direction"]) % 360
            steps = int(file.attrs["training_steps"]), int(file.attrs["adaptation_steps"])
        name = algorithm(config["objective"]["name"] if "objective" in config else config["method"])
        run = str(about["run_id"]), str(about["path"]), int(about["generation"])
    except (KeyError, ValueError, TypeError, OSError) as error:
        raise RunFileError(f"{path} is damaged, or was not written by ees-mpi adapt: {error}") from None
    if not np.isfinite(scores).any():
        raise RunFileError(f"{path}: none of its {len(scores)} evaluations is finite")
    return Adaptation(path, *run, name, config["task"], direction, float(np.nanmean(scores)), len(scores), *steps)


def find(paths: Sequence[Path]) -> list[Adaptation]:
    """Return the adaptations that files stand for, each once.

    A file that `adapt` wrote stands for itself, a run file for those beside it; samples are passed over, so that a
    pattern of names may catch all that belongs to a run.
    """
    found: dict[Path, Adaptation] = {}
    for path in paths:
        if is_adaptation(path):
            found[path.resolve()] = read(path)
            continue
        with open_run(path) as run:
            if run.attributes.get("kind") == "sample":
                continue
            run_id, generations = run.run_id, run.generations
        beside = [each for each in _beside(path) if each.run_id == run_id]
        if not beside:
            raise RunFileError(
                f"{path} has no adaptation file beside it; make one for each direction: "
                f"ees-mpi adapt {path} --direction left"
            )
        for each in beside:
            if each.generation != generations:
                raise RunFileError(
                    f"{each.path} is of generation {each.generation} of a run that has {generations} now; give it by "
                    f"its own name, or make it anew with ees-mpi adapt --overwrite"
                )
        found |= {each.path.resolve(): each for each in beside}
    return list(found.values())


def _beside(path: Path) -> list[Adaptation]:
    """Read the adaptation files that have the names `adapt` gives them by default."""
    candidates = sorted(each for each in path.parent.iterdir() if each.name.startswith(f"{path.stem}-adapt-"))
    return [read(each) for each in candidates if each.suffix == ".h5" and is_adaptation(each)]


def by_run(adaptations: Sequence[Adaptation]) -> dict[str, list[Adaptation]]:
    """Sort adaptations by their run; a run must have been adapted once in each direction."""
    runs: dict[str, list[Adaptation]] = {}
    for each in adaptations:
        same = [other for other in runs.get(each.run_id, []) if other.direction == each.direction]
        if same:
            raise RunFileError(
                f"{each.path} and {same[0].path} are of the same run and direction; give only one of them"
            )
        runs.setdefault(each.run_id, []).append(each)
    return runs
