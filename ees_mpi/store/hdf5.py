"""The HDF5 part of the run file: create one, and fold journal records into it.

Both write a new file beside the old one and rename it, so that the name always refers to a complete file.
"""

import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ees_mpi.errors import RunFileError
from ees_mpi.store import checks, hashes, layout
from ees_mpi.store.heaps import CheckedFile
from ees_mpi.store.journal import Entry, sync_folder
from ees_mpi.store.safety import damage_reported, open_hdf5

CHUNK_BYTES = 1 << 17
SLACK_BYTES = 1 << 20  # for the metadata of HDF5 while a file grows
LIBVER = ("v110", "v110")  # the oldest version whose metadata have checksums


def create(path: Path, sizes: dict[str, int], attributes: Mapping[str, Any], state: Mapping[str, NDArray[Any]]) -> None:
    """Create the file of a new run. It is built in memory, so that a full disk raises an error in a plain write."""
    options: dict[str, Any] = {"driver": "core", "backing_store": False, "libver": LIBVER}
    with _replacement(path) as fresh, h5py.File(fresh.name, "w", **options) as file:
        file.attrs.update(attributes)
        _make_generations(file.create_group("generations"), sizes)
        _make_sessions(file.create_group("sessions"))
        _put_state(file.create_group("final"), state)
        hashes.renew(file, "final", "sessions")
        file.flush()
        fresh.write_bytes(file.id.get_file_image())


def fold(path: Path, records: Sequence[Entry], run_id: str) -> None:
    """Append the records that the run file does not have yet to a copy of it, and replace the file by the copy."""
    with _copy(path, records) as file, damage_reported(path):
        if str(file.attrs.get("run_id")) != run_id:
            raise RunFileError(
                f"{path} now holds another run: it was replaced while this run was writing. It is left as it is; the "
                f"newest generations of this run are in {path.name}.journal"
            )
        _fold_into(file, records, path)


@contextmanager
def _copy(path: Path, records: Sequence[Entry] = ()) -> Iterator[h5py.File]:
    """Open a copy of a run file for writing, and replace the file by it at the end."""
    with _replacement(path) as fresh:
        shutil.copyfile(path, fresh)
        shutil.copymode(path, fresh)
        with damage_reported(path):
            hashed = _reserve(fresh, records)
        opened = CheckedFile(os.open(fresh, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW))
        with h5py.File(opened, "r+", libver=LIBVER if hashed else None) as file:
            yield file


def restore(path: Path) -> int:
    """Return to the newest state of a damaged file that is whole, and cut the generations after it.

    Return the number of generations that are left.
    """
    with _copy(path) as file, damage_reported(path):
        checks.check_small(file, path, ["sessions"])
        state = hashes.datasets(file[_newest_whole(file, path)])
        have = int(state["generation"])
        for name in ("final", "partial"):
            if name in file:
                del file[name]
        _put_state(file.create_group("final"), state)
        for name, dataset in file["generations"].items():
            if name == layout.GENERATION or name in layout.GENERATIONS:
                dataset.resize(have, axis=0)
        hashes.renew(file, "final")
    return have


def is_whole(file: h5py.File, path: Path) -> bool:
    """Return True if the last state, the last generation and an interrupted generation of a file have their hashes."""
    with suppress(RunFileError), damage_reported(path):
        checks.check_small(file, path)
        return _has_state(file, "final", path)
    return False


def _newest_whole(file: h5py.File, path: Path) -> str:
    """Return the group of the newest state that has its hash, and whose last generation has its hash."""
    for name in ("final", "previous"):
        if _has_state(file, name, path):
            return name
    raise RunFileError(f"{path} cannot be repaired: it holds no state that is whole")


def _has_state(file: h5py.File, name: str, path: Path) -> bool:
    """Return True if a group holds a state that has its hash, and the generation before it has its hash."""
    if not checks.sound_state(file, name):
        return False
    last = int(file[name]["generation"][()]) - 1
    with suppress(RunFileError), damage_reported(path):
        if last >= 0:
            checks.check_row(checks.row_of(file, last), last, path)
        return True
    return False


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


def newer(records: Sequence[Entry], have: int, path: Path) -> list[Entry]:
    """Return the generations after the first `have` of a run file; raise a RunFileError if some are missing."""
    rows = [record for record in records if record["kind"] == "generation" and record["generation"] >= have]
    if [record["generation"] for record in rows] != list(range(have, have + len(rows))):
        raise RunFileError(
            f"{path} ends with generation {have - 1}, and its journal begins with {rows[0]['generation']}: they were "
            "not copied at the same moment. Copy both again, or move the journal away to continue from the file"
        )
    return rows


def _fold_into(file: h5py.File, records: Sequence[Entry], path: Path) -> None:
    group = file["generations"]
    rows = newer(records, group[layout.GENERATION].shape[0], path)
    hashed = hashes.ATTRIBUTES in file.attrs
    if hashed:
        checks.check_small(file, path)
    _append_sessions(file["sessions"], records)
    for record in records:
        if "config" in record:
            file.attrs["config"] = record["config"]
    if rows:
        _append_generations(group, rows)
        if hashed and file["final"].attrs.get(hashes.GROUP) == hashes.of_group(file["final"]):
            _put_state(file.require_group("previous"), hashes.datasets(file["final"]))
            hashes.renew(file, "previous")
        _put_state(file["final"], rows[-1]["state"])
    _put_partial(file, records)
    if hashed:
        hashes.renew(file, "sessions", *(["final"] if rows else []), *(["partial"] if "partial" in file else []))


def _put_in_place(fresh: Path, path: Path) -> None:
    with open(fresh, "rb+") as raw:
        os.fsync(raw.fileno())
    os.replace(fresh, path)
    sync_folder(path)


def _reserve(path: Path, records: Sequence[Entry]) -> bool:
    """Allocate the disk space of a fold before HDF5 writes: a full disk may end the process inside HDF5.

    The file is checked first. It is then longer than HDF5 needs; HDF5 truncates it when it closes it. Return True if
    the file has hashes.
    """
    with open_hdf5(path) as file:
        hashed = hashes.ATTRIBUTES in file.attrs
        count = sum(record["kind"] == "generation" for record in records)
        need = sum(_growth(item, count) for item in file["generations"].values())
    need += 2 * sum(array.nbytes for record in records for array in record.get("state", {}).values())
    need += sum(a.nbytes for record in records if record["kind"] == "partial" for a in record["arrays"].values())
    with open(path, "rb+") as raw:
        os.posix_fallocate(raw.fileno(), os.fstat(raw.fileno()).st_size, need + SLACK_BYTES)
    return hashed


def _growth(dataset: h5py.Dataset, rows: int) -> int:
    """Return the largest number of bytes that more rows of a dataset may need."""
    if dataset.chunks is None:
        return 0
    chunks = -(-rows // dataset.chunks[0]) + 1
    size: int = chunks * int(np.prod(dataset.chunks)) * dataset.dtype.itemsize
    return size


def _make_generations(group: h5py.Group, sizes: dict[str, int]) -> None:
    fields = layout.present(sizes)
    axes = {axis for field in fields.values() for axis in field.axes}
    time_axis = group.create_dataset(layout.GENERATION, (0,), "<i8", maxshape=(None,), chunks=(1024,))
    time_axis.make_scale(layout.GENERATION)
    for axis in sorted(axes):
        group.create_dataset(axis, data=np.arange(sizes[axis], dtype="<i4")).make_scale(axis)
    for name, field in fields.items():
        shape = tuple(sizes[axis] for axis in field.axes)
        row_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(field.dtype).itemsize
        rows = max(1, min(512, CHUNK_BYTES // row_bytes))
        dataset = group.create_dataset(name, (0, *shape), field.dtype, maxshape=(None, *shape), chunks=(rows, *shape))
        dataset.attrs["about"] = field.about
        for place, axis in enumerate((layout.GENERATION, *field.axes)):
            dataset.dims[place].attach_scale(group[axis])


def _append_generations(group: h5py.Group, rows: Sequence[Entry]) -> None:
    have = group[layout.GENERATION].shape[0]
    count = have + len(rows)
    for name, dataset in group.items():
        if name == layout.GENERATION:
            dataset.resize(count, axis=0)
            dataset[have:] = [row["generation"] for row in rows]
        elif name in layout.GENERATIONS:
            dataset.resize(count, axis=0)
            dataset[have:] = np.stack([row["arrays"][name] for row in rows])


def _make_sessions(group: h5py.Group) -> None:
    group.create_dataset("session", (0,), "<i8", maxshape=(None,), chunks=(64,)).make_scale("session")
    for name, dtype in layout.SESSIONS.items():
        kind = h5py.string_dtype() if dtype == "str" else dtype
        dataset = group.create_dataset(name, (0,), kind, maxshape=(None,), chunks=(64,))
        dataset.dims[0].attach_scale(group["session"])


def _append_sessions(group: h5py.Group, records: Sequence[Entry]) -> None:
    """Add the sessions that began in these records, and set the end of the last one to its last commit."""
    for record in records:
        if record["kind"] == "session" and record["session"] >= group["session"].shape[0]:
            count = record["session"] + 1
            values = {**record, "machine": json.dumps(record["machine"]), "end": record["start"]}
            group["session"].resize(count, axis=0)
            group["session"][-1] = record["session"]
            for name in layout.SESSIONS:
                group[name].resize(count, axis=0)
                group[name][-1] = values[name]
    commits = [record for record in records if record["kind"] == "generation"]
    if commits:
        group["end"][-1] = float(commits[-1]["arrays"]["seconds_clock"])


def _put_state(group: h5py.Group, state: Mapping[str, NDArray[Any]]) -> None:
    """Write a state to a group, in place if the shapes are the same: the file does not grow with each fold."""
    for name in hashes.datasets(group).keys() - state.keys():
        del group[name]
    for name, array in state.items():
        if name in group and (group[name].shape != array.shape or group[name].dtype != array.dtype):
            del group[name]
        if name in group:
            group[name][...] = array
        else:
            group.create_dataset(name, data=array)


def _put_partial(file: h5py.File, records: Sequence[Entry]) -> None:
    """Save the outcomes of an interrupted generation, until that generation is committed."""
    have = file["generations"][layout.GENERATION].shape[0]
    partial = [record for record in records if record["kind"] == "partial" and record["generation"] == have]
    if "partial" in file and (partial or file["partial/generation"][()] < have):
        del file["partial"]
    if partial:
        file["partial/generation"] = have
        for name, array in partial[-1]["arrays"].items():
            file[f"partial/{name}"] = array
