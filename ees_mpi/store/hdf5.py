"""The HDF5 side of the run file: making one, and folding journal records into it.

Both write a new file beside the old one and rename it, so that the name always stands for a whole file.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ees_mpi.store import layout
from ees_mpi.store.journal import Record, sync_folder

CHUNK_BYTES = 1 << 20
SLACK_BYTES = 1 << 20  # HDF5's own bookkeeping while a file grows


def create(path: Path, sizes: dict[str, int], attributes: Mapping[str, Any], state: Mapping[str, NDArray[Any]]) -> None:
    """Make the run file of a run that has not begun."""

    def fill(file: h5py.File) -> None:
        file.attrs.update(attributes)
        _make_generations(file.create_group("generations"), sizes)
        _make_sessions(file.create_group("sessions"))
        _put_state(file, state)

    _replace(path, fill, base=None, room=sum(array.nbytes for array in state.values()))


def fold(path: Path, records: Sequence[Record], room: int) -> None:
    """Append the records that the run file does not have yet; `room`: their size in bytes."""

    def fill(file: h5py.File) -> None:
        group = file["generations"]
        have = group[layout.GENERATION].shape[0]
        rows = [record for record in records if record["kind"] == "generation" and record["generation"] >= have]
        _append_sessions(file["sessions"], records)
        if rows:
            _append_generations(group, rows)
            _put_state(file, rows[-1]["state"])
        _put_partial(file, records)

    _replace(path, fill, base=path, room=room)


def _replace(path: Path, fill: Callable[[h5py.File], None], base: Path | None, room: int) -> None:
    """Write a new file, starting from a copy of `base`, and put it in the place of `path`."""
    fresh = path.with_name(path.name + ".folding")
    try:
        if base:
            shutil.copyfile(base, fresh)
        else:
            fresh.touch()
        # Before HDF5 writes: a disk that fills up under it leaves a file that it cannot even close.
        _reserve(fresh, room + SLACK_BYTES)
        with h5py.File(fresh, "r+" if base else "w") as file:
            fill(file)
        with open(fresh, "rb+") as raw:
            os.fsync(raw.fileno())
        os.replace(fresh, path)
        sync_folder(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def _reserve(path: Path, room: int) -> None:
    with open(path, "rb+") as raw:
        size = os.fstat(raw.fileno()).st_size
        os.posix_fallocate(raw.fileno(), size, room)
        os.ftruncate(raw.fileno(), size)


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
        rows = max(1, min(1024, CHUNK_BYTES // row_bytes))
        dataset = group.create_dataset(name, (0, *shape), field.dtype, maxshape=(None, *shape), chunks=(rows, *shape))
        dataset.attrs["about"] = field.about
        for place, axis in enumerate((layout.GENERATION, *field.axes)):
            dataset.dims[place].attach_scale(group[axis])


def _append_generations(group: h5py.Group, rows: Sequence[Record]) -> None:
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


def _append_sessions(group: h5py.Group, records: Sequence[Record]) -> None:
    """Add the session that began in these records, and move the end of the last one to its last commit."""
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


def _put_state(file: h5py.File, state: Mapping[str, NDArray[Any]]) -> None:
    """Write the state in group `final`, in place where shapes allow it."""
    final = file.require_group("final")
    for name, array in state.items():
        if name in final and (final[name].shape != array.shape or final[name].dtype != array.dtype):
            del final[name]
        if name in final:
            final[name][...] = array
        else:
            final.create_dataset(name, data=array)


def _put_partial(file: h5py.File, records: Sequence[Record]) -> None:
    """Keep the outcomes of a generation that was cut short, until that generation is committed."""
    have = file["generations"][layout.GENERATION].shape[0]
    partial = [record for record in records if record["kind"] == "partial" and record["generation"] == have]
    if "partial" in file and (partial or file["partial/generation"][()] < have):
        del file["partial"]
    if partial:
        file["partial/generation"] = have
        for name, array in partial[-1]["arrays"].items():
            file[f"partial/{name}"] = array


def read_state(file: h5py.File) -> dict[str, NDArray[Any]]:
    """Return the state in group `final` as named arrays."""
    named: dict[str, NDArray[Any]] = {}

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            named[name] = np.asarray(item[()])

    file["final"].visititems(note)
    return named
