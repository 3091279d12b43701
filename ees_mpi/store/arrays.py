"""The arrays of an open run file over its generations, as a mapping from their names."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from ees_mpi.config import Config
from ees_mpi.errors import MissingExtra, RunFileError
from ees_mpi.outcomes import Arrays, Draw, Floats, split_learned
from ees_mpi.store import layout
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


class RunArrays(Mapping[str, Series]):
    """The arrays over generations: `run["entropy"]`. They are read in slices, when they are used."""

    path: Path
    config: Config
    given_label: str = ""  # by the user, for a figure
    _file: h5py.File
    _newer: NDArray[Any]  # [n] rows of the journal that are not in the file yet, with a field for each array
    _attributes: dict[str, Any]

    __eq__ = object.__eq__  # a run is equal to itself only; no arrays are compared
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        if not self._file:
            return f"<Run {self.path}, closed>"
        config, kind = self.config, self._attributes["kind"]
        parts = f"{config.task_name}, {config.method.algorithm}, {config.population.size} {config.population.row_name}s"
        done = f"{self.generations} of {config.run.generations} generations"
        return f"<Run {self.path}: {'sample of ' * (kind != 'run')}{parts}, {done}, {len(self)} arrays>"

    @property
    def names(self) -> list[str]:
        """The names of the arrays over generations."""
        self._check_open()
        return list(self._names)

    @property
    def generations(self) -> int:
        """The number of committed generations."""
        self._check_open()
        return self._folded + len(self._newer)

    # What an open file holds is read once: the writer replaces a file, and never changes it.
    @cached_property
    def _series(self) -> dict[str, Series]:
        """The arrays that were used."""
        return {}

    @cached_property
    def _names(self) -> list[str]:
        return [name for name in self._file["generations"] if name in layout.fields(self.config)]

    @cached_property
    def _folded(self) -> int:
        """The number of generations in the HDF5 file."""
        return int(self._file["generations"][layout.GENERATION].shape[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _check_open(self) -> None:
        if not self._file:
            raise RunFileError(f"{self.path} is closed; open it again with `ees_mpi.open_run`")

    def __getitem__(self, name: str) -> Series:
        """Return one array over all generations."""
        if name not in self.names:
            raise KeyError(f"{self.path} has no array {name!r}; it has {', '.join(self.names)}")
        if name not in self._series:
            self._series[name] = Series(self._file[f"generations/{name}"], self._newer[name], self.path)
        return self._series[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def _ipython_key_completions_(self) -> list[str]:
        """Return the names that the tab key offers after `run["`."""
        return self.names

    def number_of(self, generation: int) -> int:
        """Return the number of a generation, which may count from the end: -1 is the last one."""
        number = generation + self.generations if generation < 0 else generation
        if not 0 <= number < self.generations:
            raise IndexError(f"generation {generation} is not in {self.path}, which has {self.generations}")
        return number

    def draw(self, generation: int) -> Draw:
        """Return the draw of the individuals of a generation; a RunFileError if no run can have drawn it."""
        draw = Draw(self["offset"][generation], self["sign"][generation], self["parent"][generation])
        _, means, width = self["mean"].shape
        if (draw.offset < 0).any() or (draw.offset > self.config.noise.size - width).any():
            raise RunFileError(f"{self.path} is damaged: generation {generation} has offsets outside the noise table")
        if (draw.parent < 0).any() or (draw.parent >= means).any():
            raise RunFileError(f"{self.path} is damaged: generation {generation} has parents that do not exist")
        return draw

    def observation_statistics(self, generation: int) -> tuple[Floats, Floats]:
        """Return the mean and std that normalised the observations of a generation; empty if there are none."""
        if "observation_mean" not in self.names:
            return np.zeros(0), np.ones(0)
        return self["observation_mean"][generation], self["observation_std"][generation]

    def learned(self, generation: int) -> Arrays:
        """Return the learned arrays from which a generation was drawn."""
        learned: Arrays = {name: self[name][generation] for name in ("mean", "std") if name in self.names}
        if "learned" not in self.names:
            return learned
        like = {**self.config.population.learned(learned["mean"]), **learned}
        return split_learned(self["learned"][generation], like)

    def to_xarray(self, *names: str) -> Any:
        """Return arrays in memory as an `xarray.Dataset` with named axes; all of them, if no names are given."""
        try:
            import xarray
        except ImportError:
            raise MissingExtra("to_xarray needs xarray: pip install 'ees_mpi[analysis]'") from None
        arrays = {name: np.asarray(self[name]) for name in names or self.names}
        fields = layout.fields(self.config)
        axes = {name: (layout.GENERATION, *fields[name].axes) for name in arrays}
        sizes = {axis: size for name in arrays for axis, size in zip(axes[name], arrays[name].shape, strict=True)}
        about = {name: {"about": fields[name].about} for name in arrays}
        variables = {name: (axes[name], array, about[name]) for name, array in arrays.items()}
        coordinates = {axis: np.arange(size) for axis, size in sizes.items()}
        return xarray.Dataset(variables, coordinates, {"config": self.config.to_toml()})
