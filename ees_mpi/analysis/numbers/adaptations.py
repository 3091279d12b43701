"""The files that `ees-mpi adapt` writes: finds them in the folder of a run file, and reads one number per run."""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np

from ees_mpi.analysis.labels import algorithm, is_sample
from ees_mpi.analysis.numbers.run_values import RunValue, is_adaptation
from ees_mpi.errors import RunFileError
from ees_mpi.store.reader import open_run


def read_all(paths: Sequence[Path]) -> list[RunValue]:
    """Return for each run the mean distance over the directions to which it was adapted."""
    runs: dict[str, list[RunValue]] = {}
    for each in _find(paths):
        others = runs.setdefault(each.run_id, [])
        for other in others:
            if other.directions == each.directions:
                raise RunFileError(f"{each.path} and {other.path} have the same run and direction; give only one")
        others.append(each)
    if not runs:
        raise RunFileError(f"{paths[0]} is a sample; expected run files, or files that ees-mpi adapt wrote")
    return [
        replace(
            adaptations[0],
            value=float(np.mean([each.value for each in adaptations])),
            directions=tuple(sorted(each.directions[0] for each in adaptations)),
            adaptation_steps=float(np.mean([each.adaptation_steps for each in adaptations])),
        )
        for adaptations in runs.values()
    ]


def _find(paths: Sequence[Path]) -> list[RunValue]:
    """Return the adaptations of some files, each once.

    A run file stands for the adaptation files in its folder. Samples are ignored, so that a shell pattern may match
    all files of a run.
    """
    found: dict[Path, RunValue] = {}
    for path in paths:
        if is_adaptation(path):
            found[path.resolve()] = _read(path)
            continue
        with open_run(path) as run:
            if is_sample(run):
                continue
            run_id, generations = run.run_id, run.generations
        candidates = [each for each in sorted(path.parent.glob("*.h5")) if each.name.startswith(f"{path.stem}-adapt-")]
        matching = [each for each in map(_read, filter(is_adaptation, candidates)) if each.run_id == run_id]
        if not matching:
            raise RunFileError(
                f"{path} has no adaptation file in its folder; make one for each direction: "
                f"ees-mpi adapt {path} --direction left"
            )
        for each in matching:
            if each.generation != generations:
                raise RunFileError(
                    f"{each.path} is of generation {each.generation} of a run that has {generations} now; give the "
                    "adaptation file itself, or make a new one with ees-mpi adapt --overwrite"
                )
        found |= {each.path.resolve(): each for each in matching}
    return list(found.values())


def _read(path: Path) -> RunValue:
    """Read an adaptation file: the mean distance of its evaluations in one direction."""
    try:
        with h5py.File(path, "r", locking="best-effort") as file:
            note = json.loads(file.attrs["run"])
            config = tomllib.loads(str(file.attrs["config"]))
            scores = np.asarray(file["evaluations/fitness"][:], np.float64)
            direction = float(file.attrs["direction"]) % 360
            steps = int(file.attrs["training_steps"]), int(file.attrs["adaptation_steps"])
        name = algorithm(config["objective"]["name"] if "objective" in config else config["method"])
        run_id, generation = str(note["run_id"]), int(note["generation"])
    except (KeyError, ValueError, TypeError, OSError) as error:
        raise RunFileError(f"{path} is damaged, or was not written by ees-mpi adapt: {error}") from None
    if not np.isfinite(scores).any():
        raise RunFileError(f"{path}: none of its {len(scores)} evaluations is finite")
    facts = path, run_id, config["task"], len(scores), generation, True
    return RunValue(name, float(np.nanmean(scores)), *facts, (direction,), *steps)
