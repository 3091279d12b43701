"""Bring a run file of a killed run, or a damaged one, into a state from which it continues."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ees_mpi.errors import RunFileError
from ees_mpi.noise import Noise
from ees_mpi.outcomes import Arrays
from ees_mpi.store import checks, hdf5, journal, layout
from ees_mpi.store.lock import Lock
from ees_mpi.store.reader import open_run
from ees_mpi.store.safety import damage_reported, open_hdf5, real

# Advice after a write that failed.
SAFE = "All committed generations are safe; `ees-mpi resume` continues the run after this is fixed"
UNCHANGED = "The file is as it was"


@dataclass(frozen=True)
class Contents:
    """The contents of a run file that a new writer continues."""

    run_id: str
    names: list[str]  # of the arrays of a generation
    last_hash: bytes
    sessions: list[dict[str, Any]]
    state: Arrays
    warning: str = ""


def fold_journal(path: Path) -> Contents:
    """Fold the journal of a killed run, and return the contents of the file; the caller holds the lock."""
    with open_run(path, allow_damaged_journal=True) as run:
        run.check_last()
        run.check_noise(Noise(run.config.noise_seed, run.config.noise.size))
        records, damage = run.journal_records, run.damage
        contents = Contents(run.run_id, run.names, run.last_hash, run.sessions(), run.state_arrays(), damage)
        why = "damaged" if run.journal.damaged else "other-run"
    beside = journal.path_of(path)
    with write_errors(path, "" if damage else SAFE):  # file and journal stay until the fold is in place
        if records:
            hdf5.fold(path, records, contents.state, contents.run_id)
        if damage:  # never delete a journal that was not read completely
            aside = journal.set_aside(path, why)
            contents = replace(contents, warning=f"{damage}; it is now {aside}")
        for name in (beside.name, f"{beside.name}.new", f"{path.name}.folding"):
            path.with_name(name).unlink(missing_ok=True)
    return contents


def repair(path: Path) -> str:
    """Lock a run file, return to its newest whole state if it is damaged, and fold the journal of a killed run.

    Return a sentence about what was lost, or is damaged and cannot be repaired; empty if nothing is.
    """
    path = real(path)
    open_hdf5(path).close()  # raises an error if this is no HDF5 file, before anything is locked
    lock = Lock(path)
    try:
        lost = _restore_if_damaged(path)
        return " ".join(filter(None, (lost, fold_journal(path).warning, _damaged_rows(path))))
    finally:
        lock.release()


def _damaged_rows(path: Path) -> str:
    """Return a sentence that names the damaged generations; empty if all are whole."""
    damaged = []
    with open_run(path) as run:
        for generation in range(run.generations):
            try:
                run.check_generation(generation)
            except RunFileError:
                damaged.append(str(generation))
    if not damaged:
        return ""
    listed = ", ".join(damaged[:20]) + (f" and {len(damaged) - 20} more" if len(damaged) > 20 else "")
    return (
        f"generation {listed}: the data are damaged, and the file has no copy of them. The others and the last "
        "state are whole: `ees-mpi resume` continues the run."
    )


def _restore_if_damaged(path: Path) -> str:
    """Return to the newest whole state if the last state or generation is damaged; keep the damaged file."""
    try:
        with open_run(path, allow_damaged_journal=True) as run:
            run.check_last()
        return ""
    except RunFileError as error:
        damage = error
    with open_hdf5(path) as file, damage_reported(path):
        attributes = checks.attributes_of(file, path)
        whole = False  # the last state, the last generation and an interrupted generation have their hashes
        with suppress(RunFileError), damage_reported(path):
            checks.check_groups(file, attributes, path)
            whole = checks.is_whole(file, "final", attributes, path)
        if whole:
            raise damage
        had = file["generations"][layout.GENERATION].shape[0]
    with write_errors(path, UNCHANGED):
        aside = path.with_name(f"{path.name}.damaged")
        aside.unlink(missing_ok=True)
        os.link(path, aside)
        try:
            have = hdf5.restore(path)
        except RunFileError:
            aside.unlink()
            raise damage from None
        unused = journal.set_aside(path, "after-damage") if have < had else None
    lost = f"generations {have} to {had - 1} are lost" if have < had else "no generation is lost"
    return f"{damage}. Returned to generation {have}: {lost}. The damaged file is {aside}" + (
        f", its journal {unused}." if unused else "."
    )


@contextmanager
def write_errors(path: Path, advice: str = "") -> Iterator[None]:
    """Turn an OSError into a RunFileError; `advice`: its last sentence."""
    try:
        yield
    except RunFileError:
        raise
    except OSError as error:
        raise cannot_write(path, error, advice) from None


def cannot_write(path: Path, error: OSError, advice: str) -> RunFileError:
    """Return the error that a run file cannot be written."""
    return RunFileError(f"cannot write {path}: {error.strerror or error}. {advice}".rstrip())
