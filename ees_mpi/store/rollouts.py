"""Files beside a run file, `RUN.h5.rollouts-G`: the rollouts of one generation, if the config asks for them."""

import os
from pathlib import Path

from ees_mpi.errors import RunFileError
from ees_mpi.outcomes import Arrays
from ees_mpi.store import fold
from ees_mpi.store.reader import Run, read_arrays

FORMAT = "ees_mpi rollouts"


def file_of(path: Path, generation: int) -> Path:
    """Return the file with the rollouts of a generation of a run."""
    return path.with_name(f"{path.name}.rollouts-{generation}")


def write(path: Path, run_id: str, generation: int, arrays: Arrays) -> None:
    """Write the rollouts of a generation; an older file is replaced."""
    target = file_of(path, generation)
    fresh = target.with_name(f"{target.name}.new")
    fold.write_arrays(fresh, _attributes(run_id, generation), arrays)
    os.replace(fresh, target)


def read(run: Run, generation: int) -> Arrays:
    """Return the rollouts of a generation, after a check that they belong to the run and are unchanged."""
    path = file_of(run.path, generation)
    if not path.exists():
        raise RunFileError(f"{path} does not exist: the rollouts of generation {generation} were not kept")
    attributes, arrays = read_arrays(path, FORMAT)
    expected = _attributes(run.run_id, generation)
    wrong = [name for name, value in expected.items() if attributes.get(name) != value]
    if wrong:
        raise RunFileError(f"{path}: {wrong[0]} is not that of {run.path}; the file is of another run")
    return arrays


def _attributes(run_id: str, generation: int) -> dict[str, str]:
    return {"format": FORMAT, "run_id": run_id, "generation": str(generation)}
