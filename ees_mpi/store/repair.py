"""Bring a run file of a killed run, or a damaged one, into a state from which it continues."""

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ees_mpi.errors import RunFileError
from ees_mpi.noise import Noise
from ees_mpi.outcomes import Arrays
from ees_mpi.store import checks, chunks, fold, journal, layout, records, sessions, texts
from ees_mpi.store.lock import Lock
from ees_mpi.store.reader import Run, in_words, open_run
from ees_mpi.store.safety import damage_reported, open_hdf5, real

# Advice after a write that failed.
SAFE = "All committed generations are safe; `ees-mpi resume` continues the run after this is fixed"


@dataclass(frozen=True)
class Continued:
    """The contents of a run file that a new writer continues."""

    run_id: str
    names: list[str]  # of the arrays of a generation
    sessions: list[dict[str, Any]]
    state: Arrays
    warning: str = ""


def fold_journal(path: Path) -> Continued:
    """Fold the journal of a killed run, and return the contents of the file; the caller holds the lock."""
    with open_run(path, allow_damaged_journal=True) as run:
        run.check_last()
        run.check_noise(Noise(run.config.noise_seed, run.config.noise.size))
        entries, damage = run.journal_records, run.damage
        contents = Continued(run.run_id, run.names, run.sessions(), run.state_arrays(), damage)
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
    """Lock a run file, rewrite it without its damaged parts, and fold the journal of a killed run.

    Return a sentence about what is lost; empty if nothing is.
    """
    path = real(path)
    open_hdf5(path).close()  # raises an error if this is no HDF5 file, before anything is locked
    lock = Lock(path)
    try:
        lost = _rewrite_if_damaged(path)
        return " ".join(filter(None, (lost, fold_journal(path).warning)))
    finally:
        lock.release()


def _rewrite_if_damaged(path: Path) -> str:
    """Rewrite a damaged file, and keep the old one as RUN.h5.damaged; return a sentence about what is lost."""
    with open_run(path, allow_damaged_journal=True) as run:
        damaged, why = run.damages(), "wrong checksums"
        try:
            run.check_last()
            if not damaged:
                return ""
        except RunFileError as error:
            why = str(error)
        state = _newest_state(run, damaged.get("state_sha256", []))
        if state is None:
            raise RunFileError(f"{path} cannot be repaired, because it has no state that is whole: {why}")
        have, had = int(state["generation"]), run.generations
        aside = journal.unused_name(path, "damaged")  # what an earlier repair kept stays, too
        with journal.write_errors(path, "The file is as it was"):
            with fold.replacement(path) as fresh, damage_reported(path):
                lost = _rewrite(run, fresh, state, damaged)
                shutil.copy2(path, aside)
            unused = journal.set_aside(path, "after-damage") if have < had else None
    lost += [f"the generations from {have} to {had - 1}"] if have < had else []
    said = f"Lost: {'; '.join(lost)}." if lost else "Nothing is lost."
    return f"{path} was damaged. {said} The damaged file is {aside}{f', its journal {unused}' if unused else ''}."


def _newest_state(run: Run, unknown: list[tuple[int, int]]) -> dict[str, Any] | None:
    """Return the newest state that is whole; `unknown`: generations whose digests are lost."""
    if run.journal_records and run.journal.state.get("generation") == run.generations:
        return dict(run.journal.state)
    for name in ("final", "previous"):
        with suppress(OSError, KeyError, ValueError):
            state = texts.datasets(run.file[name])
            last = int(state["generation"]) - 1
            if any(first <= last < end for first, end in unknown):
                return state  # HDF5 has checked it
            return checks.whole_state(run.file, name, run.attributes)
    return None


def _rewrite(run: Run, fresh: Path, state: Arrays, damaged: dict[str, list[tuple[int, int]]]) -> list[str]:
    """Write all of a run that can be read to a new file, up to a state; return what is lost."""
    have, lost = int(state["generation"]), []
    attributes = {name: value for name, value in run.attributes.items() if name != texts.SHA256}
    fold.build(fresh, run.config, attributes, state, run.names, run.sizes)
    shutil.copymode(run.path, fresh)
    with fold.growing(fresh, os.path.getsize(run.path)) as file:
        chunks.append(file["generations"][layout.GENERATION], np.arange(have))
        for name in run.names:
            spans = [(first, min(end, have)) for first, end in damaged.get(name, []) if first < have]
            _copy_rows(run, file, name, have, spans)
            if name == "state_sha256" and have:  # that of the last state is known
                file["generations"][name][have - 1] = records.state_sha256(state)
            if spans:
                lost.append(f"{name} of {in_words(spans)} (now NaN, -1 or 0; the bytes are in the group damaged)")
        try:
            writers = sessions.read(run.file)
            sessions.write(file, [writer for writer in writers if writer["first_generation"] <= have])
        except (OSError, ValueError):
            lost.append("the sessions")
        with suppress(OSError, KeyError, ValueError):
            previous = checks.whole_state(run.file, "previous", run.attributes)
            if previous["generation"] <= have:
                texts.put_datasets(file.create_group("previous"), previous)
    return lost


def _copy_rows(run: Run, file: h5py.File, name: str, have: int, lost: list[tuple[int, int]]) -> None:
    """Copy an array up to a generation. Lost numbers become NaN, -1 or 0; their bytes go to the group `damaged`."""
    source, target = run.file["generations"][name], file["generations"][name]
    folded = min(have, len(source))
    for first, end in chunks.spans(source, 0, folded):
        if (first, end) not in lost:
            chunks.append(target, run[name][first:end])
            continue
        lost_value = {"f": np.nan, "i": -1, "S": checks.LOST}.get(source.dtype.kind, 0)
        chunks.append(target, np.full((end - first, *source.shape[1:]), lost_value, source.dtype))
        with suppress(OSError, ValueError):  # the place of the chunk may be wrong, too
            chunks.put(file.require_group(f"damaged/{name}"), str(first), chunks.raw(source, first, end))
    chunks.append(target, run[name][folded:have])
