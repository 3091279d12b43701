"""One array of a run over its generations."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ees_mpi.store.safety import damage_reported


class Series:
    """One array of a run over its generations, read in slices: from the HDF5 file, and the newest from the journal."""

    def __init__(self, folded: h5py.Dataset, newer: NDArray[Any], path: Path):
        self._path = path
        self._folded = folded
        self._newer = newer
        self.shape: tuple[int, ...] = (folded.shape[0] + len(newer), *folded.shape[1:])
        self.dtype: np.dtype[Any] = folded.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<Series of {self._path}: shape {self.shape}, {self.dtype}; np.asarray or a slice reads it>"

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and not key:
            return self[:]
        first, rest = (key[0], key[1:]) if isinstance(key, tuple) else (key, ())
        if isinstance(first, (int, np.integer)):
            if not -len(self) <= first < len(self):
                raise IndexError(f"generation {first} is not in {self._path}, which has {len(self)}")
            return self._rows(range(len(self))[first], 1)[(0, *rest)]
        if not isinstance(first, slice):
            return np.asarray(self)[key]
        wanted = range(len(self))[first]
        if not wanted:
            return np.empty((0, *self.shape[1:]), self.dtype)[(slice(None), *rest)]
        low, high = min(wanted[0], wanted[-1]), max(wanted[0], wanted[-1])
        rows = self._rows(low, high - low + 1)
        return rows[:: wanted.step][(slice(None), *rest)]

    def _rows(self, start: int, count: int) -> NDArray[Any]:
        folded = len(self._folded)
        parts = []
        if start < folded:
            with damage_reported(self._path):
                parts.append(self._folded[start : min(start + count, folded)])
        newer = self._newer[max(start - folded, 0) : max(start + count - folded, 0)]
        if len(newer):
            parts.append(newer)
        return np.concatenate(parts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype)

    def __iter__(self) -> Iterator[Any]:
        return (self[g] for g in range(len(self)))
