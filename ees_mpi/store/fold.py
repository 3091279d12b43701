"""The HDF5 part of the run file: create one, and fold journal records into it; also those of a killed writer.

Both write a new file beside the old one and rename it, so that the name always refers to a complete file.
"""

import math
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ees_mpi.config import Config
from ees_mpi.errors import RunFileError
from ees_mpi.noise import Noise
from ees_mpi.outcomes import Arrays
from ees_mpi.store import checks, chunks, hdf5, journal, layout, records, sessions
from ees_mpi.store.journal import path_of, sync_folder
from ees_mpi.store.lock import Lock
from ees_mpi.store.reader import open_run, read_arrays
from ees_mpi.store.records import Entry
from ees_mpi.store.safety import damage_reported, open_datasets, open_hdf5, real

SAFE = "All committed generations are safe, and the run can be resumed after this is fixed"  # after a failed write
SLACK_BYTES = 1 << 20  # for the metadata of HDF5 while a file grows
LIBVER = ("v110", "v110")  # the oldest version whose metadata have checksums


def create(path: Path, config: Config, attributes: Mapping[str, Any], state: Arrays, names: Iterable[str]) -> None:
    """Create the file of a new run; `names`: of the arrays of a generation.

    The journal of a run that is overwritten is deleted just before: no file is ever beside the journal of another run.
    """
    with replacement(path) as fresh:
        with _new_file(fresh) as file:
            hdf5.put_root(file, {**attributes, "first_state_sha256": records.state_sha256(state)})
            _make_generations(file.create_group("generations"), config, list(names))
            sessions.write(file, [])
            hdf5.put_datasets(file.create_group("final"), state)
        _check_written(fresh)
        path_of(path).unlink(missing_ok=True)


def write_arrays(path: Path, attributes: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a small file of arrays by path, with the same checksums as a run file; see `reader.read_arrays`."""
    with _new_file(path) as file:
        hdf5.put_datasets(file, arrays)
        sha256 = hdf5.digest_of(arrays)
        hdf5.put_root(file, {"format_version": layout.FORMAT_VERSION, **attributes, "sha256": sha256})
    read_arrays(path, attributes["format"])
    _sync(path)


def _new_file(path: Path) -> AbstractContextManager[h5py.File]:
    """Create a file. HDF5 writes it from memory when it is closed: with its plain driver it crashes on a full disk."""
    return _opened(path, "w", driver="core", backing_store=True)


@contextmanager
def _opened(path: Path, mode: str, **driver: Any) -> Iterator[h5py.File]:
    try:
        with h5py.File(path, mode, libver=LIBVER, locking=False, **driver) as file:
            yield file
    except (OSError, RuntimeError) as error:  # how h5py tells that the file system has failed
        number = re.search(r"errno = (\d+)", str(error))
        if not number:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from None


def _check_written(path: Path) -> None:
    """Open a file that is complete, and read its state: versions of HDF5 have written files that nobody could open."""
    try:
        file, datasets = open_datasets(path)
        with file, damage_reported(path):
            checks.whole_state(datasets, checks.attributes_of(file, path))
    except RunFileError as error:
        version = h5py.version.hdf5_version
        raise RunFileError(f"HDF5 {version} has written a file that it cannot read: {error}") from None


def fold(path: Path, entries: Sequence[Entry], state: Arrays, run_id: str, closed: bool) -> None:
    """Append the records that the run file does not have yet to a copy of it, and replace the file by the copy.

    state: after the last generation of the records; closed: no journal belongs to the file from now on
    """
    if not path.exists():
        raise RunFileError(
            f"{path} was removed while this run was writing. Its newest generations are in {path.name}.journal, those "
            "before are lost, and it cannot be continued"
        )
    with replacement(path) as fresh:
        shutil.copyfile(path, fresh)
        shutil.copymode(path, fresh)
        need = sum(2 * len(record.data) for record in entries) + 2 * sum(array.nbytes for array in state.values())
        with damage_reported(path), growing(fresh, need) as file:
            attributes = hdf5.attributes(file)
            if attributes.get("run_id") != run_id:
                raise RunFileError(
                    f"{path} now holds another run: it was replaced while this run was writing. It is left as it is; "
                    f"the newest generations of this run are in {path.name}.journal"
                )
            _fold_into(file, entries, state, path)
            configs = [record for record in entries if record.kind in ("session", "config")]
            changed: dict[str, Any] = {"closed": np.int64(closed)}
            if configs:
                changed["config"] = hdf5.text(configs[-1].arrays["config"].item())
            hdf5.put(file, {**changed, hdf5.SHA256: hdf5.sha256({**attributes, **changed})})
        _check_written(fresh)


@contextmanager
def growing(path: Path, need: int) -> Iterator[h5py.File]:
    """Open a file for writing. Disk space for `need` bytes is allocated first: a full disk may crash HDF5."""
    file, datasets = open_datasets(path)  # checks it
    with file:
        rows = hdf5.below(datasets, "generations").values()
        need += sum(math.prod(dataset.chunks or ()) * dataset.dtype.itemsize for dataset in rows)
    with open(path, "rb+") as raw:  # it is then longer than HDF5 needs; HDF5 truncates it when it closes it
        os.posix_fallocate(raw.fileno(), os.fstat(raw.fileno()).st_size, need + SLACK_BYTES)
    with _opened(path, "r+") as file:
        yield file


@contextmanager
def replacement(path: Path) -> Iterator[Path]:
    """Yield the name of a temporary file, and rename it over `path` at the end; an error removes it."""
    fresh = path.with_name(path.name + ".folding")
    fresh.unlink(missing_ok=True)  # a link that somebody placed there is not followed
    try:
        yield fresh
        _put_in_place(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


def _put_in_place(fresh: Path, path: Path) -> None:
    """Rename a file that is on the disk; a function of its own, at which `tools/chaos.py` kills the writer."""
    _sync(fresh)
    os.replace(fresh, path)
    sync_folder(path)


def _sync(path: Path) -> None:
    with open(path, "rb+") as raw:
        os.fsync(raw.fileno())


def _fold_into(file: h5py.File, entries: Sequence[Entry], state: Arrays, path: Path) -> None:
    group = file["generations"]
    have = group[layout.GENERATION].shape[0]
    with damage_reported(path_of(path)):
        rows = checks.newer(entries, have, path)
    _fold_sessions(file, entries, rows)
    if rows:
        table = records.rows_of(rows[0].columns, rows)
        chunks.append(group[layout.GENERATION], np.arange(have, have + len(rows)))
        for name in table.dtype.names or ():
            chunks.append(h5py.Dataset(h5py.h5d.open(group.id, name.encode())), table[name])  # faster than group[name]
        hdf5.put_datasets(file["final"], state)


def _make_generations(group: h5py.Group, config: Config, names: list[str]) -> None:
    """Create the datasets of the generations, with a dimension scale for each axis: for xarray, not for our reader."""
    fields, sizes = layout.fields(config), layout.axis_sizes(config)
    scales = {layout.GENERATION: chunks.create(group, layout.GENERATION, (), "<i8")}
    scales[layout.GENERATION].make_scale(layout.GENERATION)
    for axis in sorted({axis for name in names for axis in fields[name].axes}):
        chunks.put(group, axis, np.arange(sizes[axis], dtype="<i4"))
        scales[axis] = group[axis]  # a search by name takes longer than the rest
        scales[axis].make_scale(axis)
    for name in names:
        dataset = chunks.create(group, name, tuple(sizes[axis] for axis in fields[name].axes), fields[name].dtype)
        hdf5.put(dataset, {"about": fields[name].about})
        for place, axis in enumerate((layout.GENERATION, *fields[name].axes)):
            dataset.dims[place].attach_scale(scales[axis])


def _fold_sessions(file: h5py.File, entries: Sequence[Entry], rows: Sequence[Entry]) -> None:
    """Add the sessions that began in these records, and set the end of the last one."""
    folded = sessions.read(dict(file["sessions"]))
    writers = sessions.with_new(folded, entries)
    if rows and writers:
        writers[-1]["end"] = float(rows[-1].arrays["seconds_clock"])
    if len(writers) > len(folded):
        sessions.write(file, writers)
    elif rows and writers:
        file["sessions/end"][-1] = writers[-1]["end"]


@dataclass(frozen=True)
class Continued:
    """The contents of a run file that a new writer continues."""

    run_id: str
    names: list[str]  # of the arrays of a generation
    sessions: list[dict[str, Any]]
    state: Arrays
    closed: bool  # the file says that no journal belongs to it
    warning: str = ""  # about the journal
    damaged: str = ""  # arrays with their generations, which the run does not need to go on


def fold_journal(path: Path, closed: bool) -> Continued:
    """Fold the journal of a killed run, and return the contents of the file; the caller holds the lock.

    closed: no writer follows; one that does replaces the journal, so that a file that is open has one at any time
    """
    with open_run(path, allow_damaged_journal=True) as run:
        run.check_last()
        run.check_noise(Noise(run.config.noise_seed, run.config.noise.size))
        entries, damage = run.journal_records, run.damage
        found = run.sessions(), run.state_arrays(), run.closed and not entries, run.cut, run.damages_in_words()
        contents = Continued(run.run_id, run.names, *found)
        why = "damaged" if run.journal.damaged else "other-run"
    beside = path_of(path)
    with journal.write_errors(path, "" if damage else SAFE):  # file and journal stay until the fold is in place
        if entries or (closed and not contents.closed):
            fold(path, entries, contents.state, contents.run_id, closed)
        if damage:  # never delete a journal that was not read completely
            aside = journal.set_aside(path, why)
            contents = replace(contents, warning=f"{damage}; it is now {aside}")
        for name in (beside.name, f"{beside.name}.new", f"{path.name}.folding") if closed else ():
            path.with_name(name).unlink(missing_ok=True)
    return contents


def repair(path: Path) -> str:
    """Lock a run file, and fold the journal of a killed run; return a sentence about a journal that is not whole."""
    path = real(path)
    open_hdf5(path).close()  # raises an error if this is no HDF5 file, before anything is locked
    lock = Lock(path)
    try:
        return fold_journal(path, closed=True).warning
    finally:
        lock.release()
