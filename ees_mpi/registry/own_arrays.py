"""Checks of the tables of arrays that the user's own populations and optimizers get and return."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ees_mpi.errors import OwnCodeError

Table = Mapping[str, NDArray[Any]]


def as_table(returned: Any, call: str, dtype: DTypeLike | None = None) -> dict[str, NDArray[Any]]:
    """Return what a call of the user's code returned as a dict of arrays of numbers."""
    if not isinstance(returned, Mapping) or not all(isinstance(name, str) for name in returned):
        raise OwnCodeError(f"{call} returned {type(returned).__name__}; expected a dict of arrays by name")
    arrays = {}
    for name, value in returned.items():
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise OwnCodeError(f"{call} returned {name!r} of type {array.dtype}; expected numbers")
        arrays[name] = np.array(array, dtype or array.dtype, order="C")
    return arrays


def like(returned: Any, expected: Table, call: str, dtype: DTypeLike | None = None) -> dict[str, NDArray[Any]]:
    """Return a dict of arrays that has the names and shapes of another one."""
    table = as_table(returned, call, dtype)
    for name in sorted(expected.keys() | table.keys()):
        if name not in table or name not in expected:
            raise OwnCodeError(
                f"{call} returned the arrays {', '.join(sorted(table)) or '(none)'}; expected "
                f"{', '.join(sorted(expected)) or '(none)'}"
            )
        if table[name].shape != expected[name].shape:
            raise OwnCodeError(
                f"{call} returned {name!r} of shape {table[name].shape}; expected {expected[name].shape}"
            )
    return table
