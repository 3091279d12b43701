"""Files beside a run file, `RUN.h5.rollouts-G`: the rollouts of one generation, if the config asks for them."""

from pathlib import Path

import h5py

from ees_mpi.errors import RunFileError
from ees_mpi.outcomes import Arrays
from ees_mpi.store import hashes, hdf5
from ees_mpi.store.reader import Run
from ees_mpi.store.safety import open_hdf5

FORMAT = "ees_mpi rollouts"


def file_of(path: Path, generation: int) -> Path:
    """Return the file with the rollouts of a generation of a run."""
    return path.with_name(f"{path.name}.rollouts-{generation}")


def write(path: Path, run_id: str, generation: int, arrays: Arrays) -> None:
    """Write the rollouts of a generation; an older file is replaced."""
    with hdf5.replacement(file_of(path, generation)) as fresh, h5py.File(fresh, "w") as file:
        for name in sorted(arrays):
            file[name] = arrays[name]
        named = {name: arrays[name] for name in sorted(arrays)}
        file.attrs.update(format=FORMAT, run_id=run_id, generation=generation, sha256=hashes.digest(named))


def read(run: Run, generation: int) -> Arrays:
    """Return the rollouts of a generation, after a check that they belong to the run and are unchanged."""
    path = file_of(run.path, generation)
    if not path.exists():
        raise RunFileError(f"{path} does not exist: the rollouts of generation {generation} were not kept")
    with open_hdf5(path) as file:
        found: list[str] = []
        file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
        arrays = {name: file[name][()] for name in sorted(found)}
        attributes = dict(file.attrs)
    expected = {"format": FORMAT, "run_id": run.run_id, "generation": generation, "sha256": hashes.digest(arrays)}
    wrong = [name for name, value in expected.items() if attributes.get(name) != value]
    if wrong:
        raise RunFileError(f"{path}: {wrong[0]} is not that of {run.path}; the file is damaged, or of another run")
    return arrays
