"""Attributes and small groups of an HDF5 file. A stranger may have made it, so everything read is bounded."""

from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ees_mpi.outcomes import Arrays
from ees_mpi.store import chunks, records

ATTRIBUTES = 64  # at most, of one object
MAX_TEXT = 1 << 20  # bytes of one text
SCALARS = (h5py.h5t.INTEGER, h5py.h5t.FLOAT, h5py.h5t.STRING)
SHA256 = "attributes_sha256"  # of the other attributes: HDF5 has no checksum for a long attribute


def attributes(item: Any) -> dict[str, Any]:
    """Return the attributes of a file or group: numbers, and texts as str; those of a whole file have their hash."""
    count = h5py.h5a.get_num_attrs(item.id)
    if count > ATTRIBUTES:
        raise ValueError(f"it has {count} attributes; expected at most {ATTRIBUTES}")
    found = {name: _attribute(item, name) for name in item.attrs}
    if SHA256 in found and found[SHA256] != sha256(found):
        raise ValueError("its attributes do not have the hash that the file has for them")
    return found


def _attribute(item: Any, name: str) -> Any:
    value = item.attrs.get_id(name)
    kind = value.get_type()
    usable = kind.get_class() in SCALARS and value.shape == () and value.get_storage_size() <= MAX_TEXT
    if not usable or (isinstance(kind, h5py.h5t.TypeStringID) and kind.is_variable_str()):
        raise ValueError(f"its attribute {name[:80]} is neither a number nor a text of a fixed length")
    return text(item.attrs[name])


def sha256(values: Mapping[str, Any]) -> str:
    """Return the hash of the attributes of a file, without that of the hash itself."""
    return records.digest(records.arrays_of({name: value for name, value in values.items() if name != SHA256})).hex()


def text(value: Any) -> Any:
    """Return bytes as a text; return everything else as it is."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def put(item: Any, values: Mapping[str, Any]) -> None:
    """Write attributes; texts get a fixed length."""
    for name, value in values.items():
        if isinstance(value, str):
            data = value.encode("utf-8", "surrogateescape")
            item.attrs.create(name, data, dtype=fixed(len(data)))
        else:
            item.attrs[name] = value


def put_root(file: h5py.File, values: Mapping[str, Any]) -> None:
    """Write the attributes of a file, and their hash."""
    put(file, {**values, SHA256: sha256(values)})


def fixed(length: int) -> Any:
    """Return the type of texts of at most `length` bytes."""
    return h5py.string_dtype("utf-8", max(length, 1))


def datasets(group: h5py.Group) -> dict[str, NDArray[Any]]:
    """Return the arrays of a group and of its groups, by path."""
    found = {}
    for name in _names(group):
        try:
            found[name] = np.asarray(group[name][()])
        except OSError as error:  # it does not say which array is damaged
            raise ValueError(f"{group.name.rstrip('/')}/{name} cannot be read: {error}") from None
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
