"""The HDF5 part of the run file: create one, and fold journal records into it.

Both write a new file beside the old one and rename it, so that the name always refers to a complete file.
"""

import errno
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ees_mpi.config import Config
from ees_mpi.errors import RunFileError
from ees_mpi.outcomes import Arrays
from ees_mpi.store import chain, checks, format2, layout, records, sessions, texts
from ees_mpi.store.heaps import CheckedFile
from ees_mpi.store.journal import path_of, sync_folder
from ees_mpi.store.records import Record
from ees_mpi.store.safety import damage_reported, open_hdf5

CHUNK_BYTES = 1 << 17
SLACK_BYTES = 1 << 20  # for the metadata of HDF5 while a file grows
LIBVER = ("v110", "v110")  # the oldest version whose metadata have checksums


def create(path: Path, config: Config, attributes: Mapping[str, Any], state: Arrays) -> None:
    """Create the file of a new run. It is built in memory, so that a full disk raises an error in a plain write.

    The journal of a run that is overwritten is deleted just before: no file is ever beside the journal of another run.
    """
    options: dict[str, Any] = {"driver": "core", "backing_store": False, "libver": LIBVER}
    with _replacement(path) as fresh, h5py.File(fresh.name, "w", **options) as file:
        values = {**attributes, "first_state_sha256": records.state_digest(state).hex()}
        texts.put(file, {**values, chain.ATTRIBUTES: chain.of_attributes(values)})
        _make_generations(file.create_group("generations"), config)
        sessions.write(file, [], layout.FORMAT_VERSION)
        _put_state(file.create_group("final"), state)
        file.flush()
        with open(fresh, "wb") as raw:
            raw.write(file.id.get_file_image())
            raw.flush()
            os.fsync(raw.fileno())
        path_of(path).unlink(missing_ok=True)


def fold(path: Path, entries: Sequence[Record], state: Arrays, run_id: str) -> None:
    """Append the records that the run file does not have yet to a copy of it, and replace the file by the copy.

    state: after the last generation of the records
    """
    with _copy(path, entries, state) as file, damage_reported(path):
        if texts.attributes(file).get("run_id") != run_id:
            raise RunFileError(
                f"{path} now holds another run: it was replaced while this run was writing. It is left as it is; the "
                f"newest generations of this run are in {path.name}.journal"
            )
        _fold_into(file, entries, state, path)


@contextmanager
def _copy(path: Path, entries: Sequence[Record] = (), state: Arrays | None = None) -> Iterator[h5py.File]:
    """Open a copy of a run file for writing, and replace the file by it at the end."""
    with _replacement(path) as fresh:
        shutil.copyfile(path, fresh)
        shutil.copymode(path, fresh)
        with damage_reported(path):
            _reserve(fresh, entries, state or {})
        opened = CheckedFile(os.open(fresh, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW), "r+")
        with h5py.File(opened, "r+", libver=LIBVER) as file:
            yield file


def restore(path: Path) -> int:
    """Return to the newest state of a damaged file that is whole, and cut the generations after it.

    Return the number of generations that are left.
    """
    with _copy(path) as file, damage_reported(path):
        attributes = checks.attributes_of(file, path)
        version = chain.version_of(attributes)
        writers = sessions.read(file, version, attributes["run_id"])
        whole = [name for name in ("final", "previous") if checks.is_whole(file, name, attributes, path)]
        if not whole:
            raise RunFileError(f"{path} cannot be repaired: it holds no state that is whole")
        state = texts.datasets(file[whole[0]])
        have = int(state["generation"])
        for name in ("final", "partial"):
            if name in file:
                del file[name]
        _put_state(file.create_group("final"), state)
        for dataset in layout.growing(file["generations"]).values():
            dataset.resize(have, axis=0)
        if version == 2:
            format2.renew(file, "final")
        else:  # sessions after it wrote nothing that is left
            sessions.write(file, [session for session in writers if session["first_generation"] <= have], version)
    return have


@contextmanager
def _replacement(path: Path) -> Iterator[Path]:
    """Yield the name of a temporary file, and rename it over `path` at the end; an error removes it."""
    fresh = path.with_name(path.name + ".folding")
    fresh.unlink(missing_ok=True)  # a link that somebody placed there is not followed
    try:
        yield fresh
        _put_in_place(fresh, path)
    except RuntimeError as error:  # h5py raises it for some failures of the file system
        raise OSError(errno.EIO, str(error)) from None
    finally:
        fresh.unlink(missing_ok=True)


def newer(entries: Sequence[Record], have: int, path: Path) -> list[Record]:
    """Return the generations after the first `have` of a run file; raise a RunFileError if some are missing."""
    rows = [record for record in entries if record.kind == "generation" and record.number >= have]
    if [record.number for record in rows] != list(range(have, have + len(rows))):
        raise RunFileError(
            f"{path} ends with generation {have - 1}, and its journal begins with {rows[0].number}: they were "
            "not copied at the same moment. Copy both again, or move the journal away to continue from the file"
        )
    return rows


def _fold_into(file: h5py.File, entries: Sequence[Record], state: Arrays, path: Path) -> None:
    attributes = checks.attributes_of(file, path)
    version = chain.version_of(attributes)
    have = file["generations"][layout.GENERATION].shape[0]
    rows = newer(entries, have, path)
    config = _fold_sessions(file, entries, rows, version, attributes["run_id"])
    if rows:
        _append_generations(file["generations"], rows, version)
        if checks.is_whole_state(file, "final", attributes):
            _put_state(file.require_group("previous"), texts.datasets(file["final"]))
        _put_state(file["final"], state)
    partial = [record for record in entries if record.kind == "partial" and record.number == have + len(rows)]
    if "partial" in file and (partial or file["partial/generation"][()] < have + len(rows)):
        del file["partial"]
    if partial:
        chain.put_partial(file, partial[-1], version)
    if version == 2:
        if config:
            file.attrs["config"] = config
        format2.renew(file, *(name for name in ("sessions", "final", "previous", "partial") if name in file))
    elif config:
        changed = {**attributes, "config": config}
        texts.put(file, {"config": config, chain.ATTRIBUTES: chain.of_attributes(changed)})


def _put_in_place(fresh: Path, path: Path) -> None:
    with open(fresh, "rb+") as raw:
        os.fsync(raw.fileno())
    os.replace(fresh, path)
    sync_folder(path)


def _reserve(path: Path, entries: Sequence[Record], state: Arrays) -> None:
    """Allocate the disk space of a fold before HDF5 writes: a full disk may end the process inside HDF5.

    The file is checked first. It is then longer than HDF5 needs; HDF5 truncates it when it closes it.
    """
    with open_hdf5(path) as file:
        count = sum(record.kind == "generation" for record in entries)
        need = sum(_growth(item, count) for item in file["generations"].values())
    need += 2 * sum(array.nbytes for array in state.values())
    need += sum(2 * len(record.data) for record in entries if record.kind != "generation")
    with open(path, "rb+") as raw:
        os.posix_fallocate(raw.fileno(), os.fstat(raw.fileno()).st_size, need + SLACK_BYTES)


def _growth(dataset: h5py.Dataset, rows: int) -> int:
    """Return the largest number of bytes that more rows of a dataset may need."""
    if dataset.chunks is None:
        return 0
    chunks = -(-rows // dataset.chunks[0]) + 1
    size: int = chunks * int(np.prod(dataset.chunks)) * dataset.dtype.itemsize
    return size


def _make_generations(group: h5py.Group, config: Config) -> None:
    fields, sizes = layout.present(config), layout.axis_sizes(config)
    axes = {axis for field in fields.values() for axis in field.axes}
    time_axis = group.create_dataset(layout.GENERATION, (0,), "<i8", maxshape=(None,), chunks=(1024,))
    time_axis.make_scale(layout.GENERATION)
    for axis in sorted(axes):
        group.create_dataset(axis, data=np.arange(sizes[axis], dtype="<i4")).make_scale(axis)
    for name, field in {**fields, **layout.CHAIN}.items():
        shape = tuple(sizes[axis] for axis in field.axes)
        row_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(field.dtype).itemsize
        rows = max(1, min(512, CHUNK_BYTES // row_bytes))
        dataset = group.create_dataset(name, (0, *shape), field.dtype, maxshape=(None, *shape), chunks=(rows, *shape))
        texts.put(dataset, {"about": field.about})
        for place, axis in enumerate((layout.GENERATION, *field.axes)):
            dataset.dims[place].attach_scale(group[axis])


def _append_generations(group: h5py.Group, rows: Sequence[Record], version: int) -> None:
    have = group[layout.GENERATION].shape[0]
    table, hashes = chain.rows_of(rows[0].columns, rows), [chain.hashes_of(row, version) for row in rows]
    columns: dict[str, Any] = {name: table[name] for name in table.dtype.names or ()}
    columns |= {name: [pair[name] for pair in hashes] for name in layout.HASHES[version]}
    for name, column in {layout.GENERATION: [row.number for row in rows], **columns}.items():
        group[name].resize(have + len(rows), axis=0)
        group[name][have:] = column


def _fold_sessions(file: h5py.File, entries: Sequence[Record], rows: list[Record], version: int, run_id: str) -> str:
    """Add the sessions that began in these records; set the end of the last one; return the newest config, if any."""
    writers = sessions.read(file, version, run_id)
    have, config = len(writers), ""
    for record in entries:
        if record.kind == "session" and record.number == len(writers):
            writers.append(sessions.of_record(record))
        if record.kind in ("session", "config"):
            config = texts.text(record.arrays["config"].item())
    if rows and writers:
        writers[-1]["end"] = float(rows[-1].arrays["seconds_clock"])
    if len(writers) > have:
        sessions.write(file, writers, version)
    elif rows and writers:
        file["sessions/end"][-1] = writers[-1]["end"]
    return config


def _put_state(group: h5py.Group, state: Arrays) -> None:
    """Write a state to a group, in place if the shapes are the same: the file does not grow with each fold."""
    for name in texts.datasets(group).keys() - state.keys():
        del group[name]
    for name, array in state.items():
        if name in group and (group[name].shape != array.shape or group[name].dtype != array.dtype):
            del group[name]
        if name in group:
            group[name][...] = array
        else:
            group.create_dataset(name, data=array)
