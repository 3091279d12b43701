"""Fold the journal of a killed run into its file."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ees_mpi.noise import Noise
from ees_mpi.outcomes import Arrays
from ees_mpi.store import fold, journal
from ees_mpi.store.lock import Lock
from ees_mpi.store.reader import open_run
from ees_mpi.store.safety import open_hdf5, real

# Advice after a write that failed.
SAFE = "All committed generations are safe, and the run can be resumed after this is fixed"


@dataclass(frozen=True)
class Continued:
    """The contents of a run file that a new writer continues."""

    run_id: str
    names: list[str]  # of the arrays of a generation
    sessions: list[dict[str, Any]]
    state: Arrays
    warning: str = ""  # about the journal
    damaged: str = ""  # arrays with their generations, which the run does not need to go on


def fold_journal(path: Path) -> Continued:
    """Fold the journal of a killed run, and return the contents of the file; the caller holds the lock."""
    with open_run(path, allow_damaged_journal=True) as run:
        run.check_last()
        run.check_noise(Noise(run.config.noise_seed, run.config.noise.size))
        entries, damage = run.journal_records, run.damage
        found = run.sessions(), run.state_arrays(), run.cut, run.damages_in_words()
        contents = Continued(run.run_id, run.names, *found)
        why = "damaged" if run.journal.damaged else "other-run"
    beside = journal.path_of(path)
    with journal.write_errors(path, "" if damage else SAFE):  # file and journal stay until the fold is in place
        if entries:
            fold.fold(path, entries, contents.state, contents.run_id)
        if damage:  # never delete a journal that was not read completely
            aside = journal.set_aside(path, why)
            contents = replace(contents, warning=f"{damage}; it is now {aside}")
        for name in (beside.name, f"{beside.name}.new", f"{path.name}.folding"):
            path.with_name(name).unlink(missing_ok=True)
    return contents


def repair(path: Path) -> str:
    """Lock a run file, and fold the journal of a killed run; return a sentence about a journal that is not whole."""
    path = real(path)
    open_hdf5(path).close()  # raises an error if this is no HDF5 file, before anything is locked
    lock = Lock(path)
    try:
        return fold_journal(path).warning
    finally:
        lock.release()
