"""Rows of a chunked dataset, and HDF5's own checksums.

Each chunk has a Fletcher-32 checksum, which HDF5 checks when it reads the chunk. That checksum of zeros is zero, so a
block of the disk that lost its contents would pass. Therefore `write` leaves out chunks of zeros (HDF5 reads them as
zeros), and `read` refuses a stored chunk that has nothing but zeros.
"""

import math
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

CHUNK_BYTES = 1 << 17
ROWS = 16  # of a chunk, at most: a flipped bit costs all rows of its chunk


def create(group: h5py.Group, name: str, shape: tuple[int, ...], dtype: Any, rows: int = ROWS) -> h5py.Dataset:
    """Create a dataset without rows; `shape`: of a row; `rows`: of a chunk, at most."""
    row_bytes = max(1, math.prod(shape) * np.dtype(dtype).itemsize)
    chunk = max(1, min(rows, CHUNK_BYTES // row_bytes))
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((chunk, *shape))
    plist.set_fletcher32()
    plist.set_obj_track_times(False)
    space = h5py.h5s.create_simple((0, *shape), (h5py.h5s.UNLIMITED, *shape))
    kind = h5py.h5t.py_create(np.dtype(dtype), logical=True)
    return h5py.Dataset(h5py.h5d.create(group.id, name.encode(), kind, space, plist))


def put(group: h5py.Group, name: str, array: NDArray[Any]) -> None:
    """Write an array, in place if there is one of this shape and type: the file does not grow with each fold.

    An array without a shape, or without numbers, is part of the header of its dataset, which has a checksum.
    """
    if name in group:
        old = group[name]
        if old.shape == array.shape and old.dtype == array.dtype:
            old[...] = array
            return
        del group[name]
    if array.size and array.shape:
        group.create_dataset(name, data=array, chunks=array.shape, fletcher32=True)
    else:
        _put_compact(group, name, array)


def _put_compact(group: h5py.Group, name: str, array: NDArray[Any]) -> None:
    folder, _, own = name.rpartition("/")
    place = group.require_group(folder) if folder else group
    compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    compact.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple(array.shape) if array.shape else h5py.h5s.create(h5py.h5s.SCALAR)
    h5py.h5d.create(place.id, own.encode(), h5py.h5t.py_create(array.dtype, logical=True), space, compact)
    if array.size:
        place[own][...] = array


def append(dataset: h5py.Dataset, values: Any) -> None:
    """Append rows; chunks of zeros are left out.

    A fold appends to dozens of datasets, so this uses the functions of HDF5 without h5py's selections.
    """
    rows, shape = np.ascontiguousarray(values, dataset.dtype), dataset.shape
    if rows.shape[1:] != shape[1:]:  # HDF5 would cut the rows that are there
        raise ValueError(f"{dataset.name}: expected rows of shape {shape[1:]}, got {rows.shape[1:]}")
    start, zeros = shape[0], (0,) * (rows.ndim - 1)
    dataset.id.set_extent((start + len(rows), *rows.shape[1:]))
    for first, last in spans(dataset, start, start + len(rows)):
        part = rows[first - start : last - start]
        if _has_bits(part):
            place = dataset.id.get_space()
            place.select_hyperslab((first, *zeros), part.shape)
            dataset.id.write(h5py.h5s.create_simple(part.shape), place, part)


def read(dataset: h5py.Dataset, start: int, stop: int) -> NDArray[Any]:
    """Return some rows; raise a ValueError that names the rows of a damaged chunk."""
    try:
        rows = np.asarray(dataset[start:stop])
        parts = [(first, rows[first - start : last - start]) for first, last in spans(dataset, start, stop)]
        bad = [(first, first + len(part)) for first, part in parts if _is_zeroed(dataset, part, first)]
    except OSError:
        bad = damaged(dataset, start, stop) or [(start, stop)]
    if bad:
        first, last = whole(dataset, *bad[0])
        rows_are = "generations" if dataset.name.startswith("/generations/") else "rows"
        raise ValueError(f"{dataset.name} has wrong checksums in the {rows_are} {first} to {last - 1}")
    return rows


def damaged(dataset: h5py.Dataset, start: int = 0, stop: int | None = None) -> list[tuple[int, int]]:
    """Return the rows (first, end) of all chunks that are damaged."""
    found = []
    for first, last in spans(dataset, start, dataset.shape[0] if stop is None else stop):
        try:
            if _is_zeroed(dataset, dataset[first:last], first):
                found.append((first, last))
        except OSError:
            found.append((first, last))
    return found


def spans(dataset: h5py.Dataset, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the rows (first, end) of each chunk between two rows."""
    step = dataset.chunks[0]
    for first in range(start - start % step, stop, step):
        yield max(first, start), min(first + step, stop)


def whole(dataset: h5py.Dataset, first: int, last: int) -> tuple[int, int]:
    """Return all rows (first, end) of the chunk of some rows."""
    step = dataset.chunks[0]
    start = first - first % step
    return start, max(last, min(start + step, dataset.shape[0]))


def _is_zeroed(dataset: h5py.Dataset, rows: NDArray[Any], first: int) -> bool:
    """Return True if these rows of one chunk, from row `first` on, are zeros, and so is the stored chunk."""
    if _has_bits(rows):
        return False
    place = (first - first % dataset.chunks[0], *[0] * (len(dataset.shape) - 1))
    if dataset.id.get_chunk_info_by_coord(place).byte_offset is None:  # it was never written
        return False
    return not any(dataset.id.read_direct_chunk(place)[1])


def _has_bits(rows: NDArray[Any]) -> bool:
    """Return False if all bytes are zero."""
    return bool(np.ascontiguousarray(rows).view(np.uint8).any())
