"""Records of a run: named arrays as one run of bytes, and their digests."""

import hashlib
import math
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ees_mpi.outcomes import Arrays

Columns = Annotated[tuple[tuple[str, str, tuple[int, ...]], ...], msgspec.Meta(max_length=1000)]  # name, dtype, shape


class Entry(msgspec.Struct, frozen=True):
    """A "session", a "generation", or a changed "config"."""

    kind: str
    generation: int  # its number; of other kinds: how many were committed before
    before: str  # state_sha256 before it
    columns: Columns
    data: bytes

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name."""
        return named(self.columns, self.data)

    @property
    def after(self) -> str:
        """The state_sha256 after a generation."""
        return bytes(self.arrays["state_sha256"][()]).decode("ascii")


def flat(arrays: Arrays) -> tuple[Columns, bytes]:
    """Return the columns and the bytes of named arrays."""
    columns = tuple((name, array.dtype.str, array.shape) for name, array in arrays.items())
    return columns, b"".join([array.tobytes() for array in arrays.values()])


def named(columns: Columns, data: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of some columns; raise a ValueError if the bytes are not theirs."""
    arrays, start = {}, 0
    for name, dtype, shape in columns:
        arrays[name] = np.frombuffer(data, dtype, math.prod(shape), start).reshape(shape)
        start += arrays[name].nbytes
    if start != len(data):
        raise ValueError("a record has more bytes than its arrays")
    return arrays


def rows_of(columns: Columns, rows: list[Entry]) -> NDArray[Any]:
    """Return generations as one structured array."""
    kind = np.dtype([(name, dtype, shape) for name, dtype, shape in columns])
    return np.frombuffer(b"".join(row.data for row in rows), kind)


def arrays_of(values: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return numbers and texts as arrays, sorted by name: texts as UTF-8, numbers with 64 bits."""
    return {name: _array_of(values[name]) for name in sorted(values)}


def _array_of(value: Any) -> NDArray[Any]:
    if isinstance(value, str):
        return np.array(value.encode("utf-8", "surrogateescape"))
    return np.array(value, "<f8" if isinstance(value, (float, np.floating)) else "<i8")


def digest(named: Arrays) -> bytes:
    """Return the SHA-256 of named arrays, in the given order: of each a line `NAME DTYPE SHAPE`, and its bytes."""
    sha256 = hashlib.sha256()
    for name, array in named.items():
        sha256.update(f"{name} {array.dtype.str} {array.shape}\n".encode("utf-8", "surrogateescape"))
        sha256.update(np.ascontiguousarray(array).data)
    return sha256.digest()


def state_sha256(state: Arrays) -> str:
    """Return the digest of a state: that of `State.digest`."""
    return digest({name: state[name] for name in sorted(state, key=_place)}).hex()


def _place(name: str) -> tuple[int, str]:
    """Return the place of an array in the order of `State.arrays`."""
    parts = (name == "generation", "/" not in name and name != "observations", name.startswith("moments/"))
    return (*parts, name == "observations", True).index(True), name
