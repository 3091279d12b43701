"""The HDF5 file: what is written to it, and reading it with suspicion.

/                the attributes of the run, and the list of its arrays (`layout`)
/generations/    one dataset for each array of the list, and a dimension scale for each axis, which we never read
/sessions/0, 1   the attributes of each writer
/final/          the state after the last generation; its attributes say how much the file has

All attributes of an object have one checksum. Attributes of our own are numbers and texts of a fixed length: HDF5 keeps
texts of variable length, and the lists of dimension scales, in heaps without a checksum, and can hang in a damaged one.
Only what is listed is opened, by name, and only hard links: a file cannot lead to another one.
"""

import hashlib
import json
import zlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

import h5py
import numpy as np
from numpy.typing import NDArray

from ees_mpi.store.layout import GENERATION, Arrays, Layout

FORMAT = "ees_mpi run"
VERSION = 5
LIBVER = ("v110", "v110")  # the oldest version whose metadata have checksums
CHUNK_BYTES = 1 << 17
CHUNK_ROWS = 16  # at most: HDF5 refuses all rows of a chunk that has a wrong bit
SLACK_BYTES = 1 << 20  # for the metadata of HDF5
MAX_TEXT = 1 << 20  # bytes of one attribute
CHECKSUM = "checksum"
Attributes = Mapping[str, Any]  # numbers and texts
Item = TypeVar("Item", h5py.Group, h5py.Dataset)


def checksum_of(values: Attributes) -> str:
    """Return the SHA-256 of attributes."""
    return hashlib.sha256(json.dumps(dict(values), sort_keys=True).encode()).hexdigest()


def write_attributes(item: h5py.Group, values: Attributes) -> None:
    """Write the attributes of an object, and their checksum."""
    for name, value in {**values, CHECKSUM: checksum_of(values)}.items():
        if isinstance(value, str):
            write_text(item, name, value)
        else:
            item.attrs.create(name, value)


def write_text(item: h5py.HLObject, name: str, text: str) -> None:
    """Write a text as an attribute of a fixed length."""
    data = text.encode("utf-8", "surrogateescape")
    item.attrs.create(name, np.bytes_(data), dtype=h5py.string_dtype("utf-8", max(len(data), 1)))


def read_attributes(item: h5py.Group) -> dict[str, Any]:
    """Return the attributes of an object; raise a ValueError if they are not those that were written."""
    manager = item.attrs
    values = {name: read_attribute(manager, name) for name in manager}
    if values.pop(CHECKSUM, "") != checksum_of(values):
        raise ValueError(f"the attributes of {item.name} have a wrong checksum")
    return values


def read_attribute(manager: h5py.AttributeManager, name: str) -> Any:
    """Return an attribute; refuse a text of variable length before it is read."""
    attribute = manager.get_id(name)
    kind = attribute.dtype
    if attribute.shape != () or kind.kind not in "iufS" or kind.itemsize > MAX_TEXT:
        raise ValueError(f"its attribute {name[:80]} is neither a number nor a text of a fixed length")
    value = np.zeros((), kind)
    attribute.read(value)
    return value.item().decode("utf-8", "surrogateescape") if kind.kind == "S" else value.item()


def member(group: h5py.Group, name: str, kind: type[Item]) -> Item:
    """Return a group or a dataset of a group; a link, which may lead out of the file, is refused."""
    for part in name.split("/"):
        if not isinstance(group.get(part, getlink=True), h5py.HardLink):
            raise ValueError(f"{group.name} has no {name}, or a link in its place")
        group = group[part]
    if not isinstance(group, kind):
        raise ValueError(f"{group.name} is not what it should be")
    return group


def stored(group: h5py.Group, name: str, kind: str, shape: tuple[int, ...]) -> h5py.Dataset:
    """Return a dataset; raise a ValueError if it has another type or shape, or if its bytes are not all in the file."""
    dataset = member(group, name, h5py.Dataset)
    if dataset.dtype.str != kind or dataset.shape != shape:
        raise ValueError(f"{dataset.name} is {dataset.dtype.str}{dataset.shape}; expected {kind}{shape}")
    created = dataset.id.get_create_plist()
    filters = {created.get_filter(number)[0] for number in range(created.get_nfilters())}
    if dataset.is_virtual or dataset.external or filters - {h5py.h5z.FILTER_FLETCHER32}:
        raise ValueError(f"{dataset.name} has data in other files, or a filter that we do not use")
    has = min(dataset.id.get_storage_size(), h5py.h5i.get_file_id(dataset.id).get_filesize())
    if dataset.nbytes > has:  # before anything of this size is allocated
        raise ValueError(f"{dataset.name} claims {dataset.nbytes} bytes, which the file does not have")
    return dataset


def new_file(path: Path) -> AbstractContextManager[h5py.File]:
    """Create a file. HDF5 writes it from memory when it is closed: with its plain driver it crashes on a full disk."""
    return h5py.File(path, "w", driver="core", backing_store=True, libver=LIBVER, locking=False)


def create(path: Path, layout: Layout, attributes: Attributes, state: Arrays) -> None:
    """Write the file of a run without generations."""
    with new_file(path) as file:
        write_attributes(file, attributes)
        _make_generations(file.create_group("generations"), layout)
        file.create_group("sessions")
        write_final(file, {"records": 0, "generations": 0, "sessions": 0, "after": "", "closed": 0}, state)


def _make_generations(group: h5py.Group, layout: Layout) -> None:
    """Create the datasets of the generations, with a dimension scale for each axis: for xarray, not for our reader."""
    scales = {GENERATION: _make_rows(group, GENERATION, (), "<i8")}
    for axis, size in {**layout.sizes, "array": len(layout.arrays)}.items():
        scales[axis] = group.create_dataset(axis, data=np.arange(size, dtype="<i4"))
    for axis, scale in scales.items():
        scale.make_scale(axis)
    for array in layout.stored:
        dataset = _make_rows(group, array.name, layout.shape(array), array.type)
        write_text(dataset, "about", array.about)
        for place, axis in enumerate((GENERATION, *array.axes)):
            dataset.dims[place].attach_scale(scales[axis])


def _make_rows(group: h5py.Group, name: str, shape: tuple[int, ...], kind: str) -> h5py.Dataset:
    chunk = (_chunk_rows(np.dtype((kind, shape))), *shape)
    return group.create_dataset(name, (0, *shape), kind, maxshape=(None, *shape), chunks=chunk, fletcher32=True)


def _chunk_rows(row: np.dtype[Any]) -> int:
    return max(1, min(CHUNK_ROWS, CHUNK_BYTES // row.itemsize))


def growth(layout: Layout, rows: NDArray[Any], state: Arrays) -> int:
    """Return by how many bytes a file grows at most with some generations and a state: whole chunks, and metadata."""
    kinds = [layout.row[array.name] for array in layout.stored]
    chunks = sum(_chunk_rows(kind) * kind.itemsize for kind in kinds)
    return chunks + 2 * rows.nbytes + 2 * sum(array.nbytes for array in state.values()) + SLACK_BYTES


def append_rows(file: h5py.File, layout: Layout, have: int, rows: NDArray[Any]) -> None:
    """Append generations to their datasets, which have `have` of them."""
    group, stop = member(file, "generations", h5py.Group), have + len(rows)
    numbers = stored(group, GENERATION, "<i8", (have,))
    numbers.resize((stop,))
    numbers[have:] = np.arange(have, stop)
    for array in layout.stored:
        shape = layout.shape(array)
        dataset = stored(group, array.name, array.type, (have, *shape))
        dataset.resize((stop, *shape))
        dataset[have:] = rows[array.name]


def write_final(file: h5py.File, counts: Attributes, state: Arrays) -> None:
    """Write the state after the last generation, and how much the file has, in place of what was there."""
    if "final" in file:
        del file["final"]  # the new one takes its space
    write_arrays(file.create_group("final"), state, counts)


def write_arrays(group: h5py.Group, arrays: Arrays, attributes: Attributes) -> None:
    """Write arrays by name into an empty group, and its attributes, to which a list of the arrays is added."""
    for name, array in arrays.items():
        group.create_dataset(name, data=array)
    listed = [(name, array.dtype.str, array.shape, zlib.crc32(array.tobytes())) for name, array in arrays.items()]
    write_attributes(group, {**attributes, "arrays": json.dumps(listed)})


def read_arrays(group: h5py.Group) -> dict[str, NDArray[Any]]:
    """Return the arrays of `write_arrays`; raise a ValueError if one has a wrong checksum."""
    arrays = {}
    for name, kind, shape, checksum in json.loads(read_attributes(group)["arrays"]):
        arrays[name] = np.asarray(stored(group, name, kind, tuple(shape))[()])
        if zlib.crc32(arrays[name].tobytes()) != checksum:
            raise ValueError(f"{group.name.rstrip('/')}/{name} has a wrong checksum")
    return arrays
