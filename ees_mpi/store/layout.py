"""The list of the arrays of a generation, and a generation as one row of bytes.

The list and the sizes of the axes are attributes of the file, so that reading needs nothing else. Each row ends with a
checksum of each of its arrays: it is computed when the generation is committed, and goes with it through journal and
HDF5 file to the reader.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

TYPES = ("<f8", "<f4", "<i8", "<i4", "|u1", "|i1", "|S64")
GENERATION = "generation"
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Array:
    """An array of a generation: its name, its axes (without that of the generations), its type, and what it is."""

    name: str
    axes: tuple[str, ...]
    type: str
    about: str


CHECKSUMS = Array("checksums", ("array",), "<u4", "crc32 of each array of this generation, in the order of `arrays`")


class Layout:
    """The arrays of a generation, with the sizes of their axes."""

    def __init__(self, arrays: Iterable[Array], sizes: Mapping[str, int]):
        self.arrays = tuple(arrays)
        self.sizes = dict(sizes)
        if strange := [array.name for array in self.arrays if array.type not in TYPES]:
            raise ValueError(f"its array {strange[0]} has an unknown type")
        self.columns = {array.name: column for column, array in enumerate(self.arrays)}
        self.stored = (*self.arrays, CHECKSUMS)
        self.row = np.dtype([(array.name, array.type, self.shape(array)) for array in self.stored])

    def shape(self, array: Array) -> tuple[int, ...]:
        """Return the shape of an array in one generation."""
        sizes = {**self.sizes, "array": len(self.arrays)}
        return tuple(sizes[axis] for axis in array.axes)

    def texts(self) -> dict[str, str]:
        """Return the attributes of a file that hold this layout."""
        return {"arrays": json.dumps([asdict(array) for array in self.arrays]), "sizes": json.dumps(self.sizes)}

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> "Layout":
        """Return the layout in the attributes of a file."""
        listed = json.loads(attributes["arrays"])
        arrays = [Array(**{**array, "axes": tuple(array["axes"])}) for array in listed]
        return cls(arrays, json.loads(attributes["sizes"]))

    def pack(self, record: Arrays) -> bytes:
        """Return a generation as a row; arrays that are not in the list are left out.

        Raise a ValueError if an array of the list is missing, or has another shape or type.
        """
        columns: list[Any] = []
        for array in self.arrays:
            if array.name not in record:
                raise ValueError(f"the generation has no array {array.name}, which is in the list of its file")
            value, kind = np.asarray(record[array.name]), self.row[array.name]
            if value.shape != kind.shape or not np.can_cast(value.dtype, kind.base, "same_kind"):
                raise ValueError(f"{array.name} is {value.dtype}{value.shape}; expected {array.type}{kind.shape}")
            columns.append(value.astype(kind.base, order="C", copy=False))
        columns.append(np.array([zlib.crc32(column) for column in columns], CHECKSUMS.type))
        return b"".join(columns)
