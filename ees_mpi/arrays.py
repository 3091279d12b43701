"""Named arrays, and their types: N individuals, B behaviour components, O observations, D parameters."""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Arrays = Mapping[str, NDArray[Any]]
Normalization = Literal["whiten", "ranks"]  # of behaviours, before an objective uses them
Bandwidth = float | Literal["scott"]  # of a kernel on normalised behaviours: a number, or Scott's rule


def readonly(named: Arrays) -> dict[str, NDArray[Any]]:
    """Return views of arrays that cannot be changed: a generation that is not committed must not change the state."""
    views = {name: np.asarray(array).view() for name, array in named.items()}
    for view in views.values():
        view.flags.writeable = False
    return views


def doubles(values: Any) -> Floats:
    """Return an array of doubles; raise a TypeError for None, texts and complex numbers, which numpy would convert."""
    array = np.asarray(values)
    others = array.dtype.kind == "O" and any(isinstance(value, str | bytes | None) for value in array.flat)
    if array.dtype.kind in "cSUTMm" or others:
        raise TypeError("real numbers are needed, not None, texts or complex ones; NaN marks a failed rollout")
    return np.asarray(array, np.float64)


def digest(named: Arrays) -> bytes:
    """Return the SHA-256 of named arrays, in the given order: of each a line `NAME DTYPE SHAPE`, and its bytes."""
    sha256 = hashlib.sha256()
    for name, array in named.items():
        sha256.update(f"{name} {array.dtype.str} {array.shape}\n".encode("utf-8", "surrogateescape"))
        sha256.update(np.ascontiguousarray(array).data)
    return sha256.digest()
