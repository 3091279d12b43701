"""Attributes and small groups of an HDF5 file. A stranger may have made it, so everything read is bounded."""

from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ees_mpi.outcomes import Arrays
from ees_mpi.store import chunks, records

MAX_TEXT = 1 << 20  # bytes of one text
SCALARS = (h5py.h5t.INTEGER, h5py.h5t.FLOAT, h5py.h5t.STRING)
SHA256 = "attributes_sha256"  # of the other attributes: HDF5 has no checksum for a long attribute


def attributes(item: Any) -> dict[str, Any]:
    """Return the attributes of a file or group: numbers, and texts as str; those of a whole file have their hash."""
    manager = item.attrs  # a file opens its root group for each of these
    found = {name: attribute(manager, name) for name in manager}
    if SHA256 in found and found[SHA256] != sha256(found):
        raise ValueError("its attributes do not have the hash that the file has for them")
    return found


def attribute(manager: h5py.AttributeManager, name: str) -> Any:
    """Return one attribute: a number, or a text as str; raise a ValueError if it is something else."""
    value = manager.get_id(name)
    kind = value.get_type()
    usable = kind.get_class() in SCALARS and value.shape == () and value.get_storage_size() <= MAX_TEXT
    if not usable or (isinstance(kind, h5py.h5t.TypeStringID) and kind.is_variable_str()):
        raise ValueError(f"its attribute {name[:80]} is neither a number nor a text of a fixed length")
    read = np.zeros((), value.dtype)
    value.read(read)
    return text(read[()])


def sha256(values: Mapping[str, Any]) -> str:
    """Return the hash of the attributes of a file, without that of the hash itself."""
    return records.digest(records.arrays_of({name: value for name, value in values.items() if name != SHA256})).hex()


def text(value: Any) -> Any:
    """Return bytes as a text; return everything else as it is."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def put(item: Any, values: Mapping[str, Any]) -> None:
    """Write attributes; texts get a fixed length."""
    manager = item.attrs
    for name, value in values.items():
        if isinstance(value, str):
            data = value.encode("utf-8", "surrogateescape")
            manager.create(name, data, dtype=fixed(len(data)))
        else:
            manager[name] = value


def put_root(file: h5py.File, values: Mapping[str, Any]) -> None:
    """Write the attributes of a file, and their hash."""
    put(file, {**values, SHA256: sha256(values)})


def fixed(length: int) -> Any:
    """Return the type of texts of at most `length` bytes."""
    return h5py.string_dtype("utf-8", max(length, 1))


def below(datasets: Mapping[str, Any], group: str) -> dict[str, Any]:
    """Return those of the datasets of a file that are below a group, by their paths there, in the order of HDF5."""
    paths = sorted((path for path in datasets if path.startswith(f"{group}/")), key=lambda path: path.split("/"))
    return {path.removeprefix(f"{group}/"): datasets[path] for path in paths}


def read(datasets: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the arrays of datasets."""
    found = {}
    for name, dataset in datasets.items():
        try:
            found[name] = np.asarray(dataset[()])
        except OSError as error:  # it does not say which array is damaged
            raise ValueError(f"{dataset.name} cannot be read: {error}") from None
    return found


def digest_of(arrays: Arrays) -> str:
    """Return the digest of arrays by path, in the order of paths."""
    return records.digest(dict(sorted(arrays.items()))).hex()


def _names(group: h5py.Group) -> list[str]:
    found: list[str] = []
    for name, item in group.items():
        found += [f"{name}/{inner}" for inner in _names(item)] if isinstance(item, h5py.Group) else [name]
    return found


def put_datasets(group: h5py.Group, arrays: Arrays) -> None:
    """Write the arrays of a group by path, and delete others."""
    for name in set(_names(group)) - arrays.keys():
        del group[name]
    for name, array in arrays.items():
        chunks.put(group, name, np.asarray(array))
