"""Records of a run: named arrays as one run of bytes, each record with its hash and the hash of the record before.

The hash of a record is the SHA-256 of a line of text, `RUN_ID KIND NUMBER HASH_BEFORE`, one line for each of its
arrays, `NAME DTYPE SHAPE`, and the bytes of all arrays in C order. Each line ends with a newline.
"""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ees_mpi import outcomes
from ees_mpi.outcomes import Arrays

Columns = Annotated[tuple[tuple[str, str, tuple[int, ...]], ...], msgspec.Meta(max_length=1000)]  # name, dtype, shape
CHAINED = ("session", "generation")  # the kinds of records that the next record follows
START = bytes(32)  # the hash before the first record


class Record(msgspec.Struct, frozen=True):
    """A session, a generation, the outcomes of an interrupted generation ("partial"), or a changed "config"."""

    kind: str
    number: int
    columns: Columns
    data: bytes
    hash: bytes
    before: bytes  # the hash of the record before

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name."""
        return named(self.columns, self.data)


def make(run_id: str, kind: str, number: int, before: bytes, columns: Columns, data: bytes) -> Record:
    """Return a record with its hash."""
    return Record(kind, number, columns, data, digest(run_id, kind, number, before, columns, data), before)


def digest(run_id: str, kind: str, number: int, before: bytes, columns: Columns, data: bytes) -> bytes:
    """Return the hash of a record."""
    head = f"{run_id} {kind} {number} {before.hex()}\n".encode()
    return hashlib.sha256(b"".join((head, _lines(columns), data))).digest()


@lru_cache(maxsize=64)  # all generations of a run have the same columns
def _lines(columns: Columns) -> bytes:
    return "".join(f"{name} {dtype} {shape}\n" for name, dtype, shape in columns).encode("utf-8", "surrogateescape")


def flat(arrays: Arrays) -> tuple[Columns, bytes]:
    """Return the columns and the bytes of named arrays."""
    columns = tuple((name, array.dtype.str, array.shape) for name, array in arrays.items())
    return columns, b"".join([array.tobytes() for array in arrays.values()])


def named(columns: Columns, data: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of some columns; raise a ValueError if the bytes are not theirs."""
    arrays, start = {}, 0
    for name, dtype, shape in columns:
        kind = np.dtype(dtype)
        count = int(np.prod(shape, dtype=object))
        if kind.hasobject or not 0 <= count * kind.itemsize <= len(data) - start:
            raise ValueError(f"the array {name[:80]!r} of a record has no usable type or shape")
        arrays[name] = np.frombuffer(data, kind, count, start).reshape(shape)
        start += count * kind.itemsize
    if start != len(data):
        raise ValueError("a record has more bytes than its arrays")
    return arrays


def plain(values: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return numbers and texts as arrays, sorted by name: texts as UTF-8, numbers with 64 bits."""
    return {name: _plain(values[name]) for name in sorted(values)}


def _plain(value: Any) -> NDArray[Any]:
    if isinstance(value, str):
        return np.array(value.encode("utf-8", "surrogateescape"))
    return np.array(value, "<f8" if isinstance(value, (float, np.floating)) else "<i8")


def state_digest(state: Arrays) -> bytes:
    """Return the digest of a state: that of `State.digest`."""
    return outcomes.digest({name: state[name] for name in sorted(state, key=_place)})


def _place(name: str) -> tuple[int, str]:
    """Return the place of an array in the order of `State.arrays`."""
    parts = (name == "generation", "/" not in name and name != "observations", name.startswith("moments/"))
    return (*parts, name == "observations", True).index(True), name
