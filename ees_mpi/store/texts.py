"""Attributes, texts and small groups of a run file. A stranger may have made it, so everything read is bounded."""

from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

ATTRIBUTES = 64  # at most, of one object
LONGEST = 1 << 20  # bytes of one text
TOTAL = 32 << 20  # bytes of all texts of a dataset
SCALARS = (h5py.h5t.INTEGER, h5py.h5t.FLOAT, h5py.h5t.STRING)


def attributes(item: Any) -> dict[str, Any]:
    """Return the attributes of a file or group: numbers, and texts as str."""
    count = h5py.h5a.get_num_attrs(item.id)
    if count > ATTRIBUTES:
        raise ValueError(f"it has {count} attributes; expected at most {ATTRIBUTES}")
    return {name: _attribute(item, name) for name in item.attrs}


def _attribute(item: Any, name: str) -> Any:
    value = item.attrs.get_id(name)
    if value.get_type().get_class() not in SCALARS or value.shape != () or value.get_storage_size() > LONGEST:
        raise ValueError(f"its attribute {name[:80]} is neither a number nor a text")
    return text(item.attrs[name])


def text(value: Any) -> Any:
    """Return bytes as a text; raise a ValueError if it is too long; return everything else as it is."""
    if isinstance(value, (str, bytes)) and len(value) > LONGEST:
        raise ValueError(f"a text of {len(value)} bytes is longer than any that a run has")
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def put(item: Any, values: Mapping[str, Any]) -> None:
    """Write attributes; texts get a fixed length."""
    for name, value in values.items():
        if isinstance(value, str):
            data = value.encode("utf-8", "surrogateescape")
            item.attrs.create(name, data, dtype=fixed(len(data)))
        else:
            item.attrs[name] = value


def fixed(length: int) -> Any:
    """Return the type of texts of at most `length` bytes."""
    return h5py.string_dtype("utf-8", max(length, 1))


def column(dataset: h5py.Dataset) -> list[str]:
    """Return the texts of a dataset. They are read one by one: many may refer to one long text in a heap."""
    texts: list[str] = []
    total = 0
    for row in range(dataset.shape[0]):
        texts.append(text(dataset[row]))
        total += len(texts[-1])
        if total > TOTAL:
            raise ValueError(f"{dataset.name} holds more than {TOTAL} bytes")
    return texts


def datasets(group: h5py.Group) -> dict[str, NDArray[Any]]:
    """Return the numbers of a group and of its groups, by path."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, item in group.items():
        if isinstance(item, h5py.Group):
            arrays |= {f"{name}/{inner}": array for inner, array in datasets(item).items()}
        elif item.dtype.kind not in "biufS":
            raise ValueError(f"{item.name} has the type {item.dtype}; expected numbers")
        else:
            arrays[name] = np.asarray(item[()])
    return arrays
