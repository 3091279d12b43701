"""Read run files at any time, from any process, without MPI."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from ees_mpi.config import Config, parse
from ees_mpi.errors import RunFileError, optional
from ees_mpi.noise import Noise
from ees_mpi.outcomes import Arrays, Draw, Floats, Singles, split_learned
from ees_mpi.store import checks, chunks, hdf5, journal, layout, lock, records, sessions
from ees_mpi.store.safety import damage_reported, open_datasets
from ees_mpi.terminal import say_on_stderr


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
                parts.append(chunks.read(self._folded, start, min(start + count, folded)))
        parts.append(self._newer[max(start - folded, 0) : max(start + count - folded, 0)])
        return np.concatenate(parts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype)

    def __iter__(self) -> Iterator[Any]:
        return (self[g] for g in range(len(self)))


class Run(Mapping[str, Series]):
    """A run file: its config, its arrays by name, its individuals. Use it as a context manager, or `close` it.

    `run["entropy"]` is an array over the generations, read in slices when it is used. Generations count from 0, or from
    the end if they are negative: -1 is the last one.
    """

    __eq__ = object.__eq__  # a run is equal to itself only; no arrays are compared
    __hash__ = object.__hash__

    def __init__(self, path: str | os.PathLike[str], trust: bool = False, allow_damaged_journal: bool = False):
        self.path = Path(path)
        # The journal is read first: if the writer folds in between, records are read twice, but none is missed.
        self.journal = journal.read(self.path)
        self.file, self._datasets = open_datasets(self.path)
        self._noise: Noise | None = None
        self._rebuilt: tuple[int, Arrays, Draw] | None = None  # the generation of the last individual
        self._series: dict[str, Series] = {}  # the arrays that were used
        try:
            with damage_reported(self.path):
                self._interpret(trust)
            if self.damage and not allow_damaged_journal:
                raise RunFileError(f"{self.damage}. `ees-mpi repair` renames it, and keeps all that can be read")
        except BaseException:
            self.close()
            raise

    def _interpret(self, trust: bool) -> None:
        """Read the config and the newest generations, and check that they belong together."""
        self._attributes = checks.attributes_of(self.file, self.path)
        self.run_id: str = self._attributes["run_id"]
        if self.journal.run_id not in ("", self.run_id):
            self.journal = journal.read(self.path)  # `--overwrite` may have replaced both files in between
        self.journal_records = self.journal.records if self.journal.run_id == self.run_id else []
        text = self._attributes["config"]
        for record in self.journal_records:
            if record.kind in ("session", "config"):  # a later session may train more generations
                text = hdf5.text(record.arrays["config"].item())
        self.config: Config = parse(text, source=f"the config in {self.path}", trust=trust, stored=True)
        noise = self.config.noise_seed, self.config.noise.size
        if (int(self._attributes["noise_seed"]), int(self._attributes["noise_size"])) != noise:
            raise ValueError("its attributes have another noise table than its config")
        self.sizes = checks.check_shapes(self._datasets, self.config, self.path)
        # What an open file holds is read once: the writer replaces a file, and never changes it.
        known = layout.fields(self.config)
        self._names = [name for name in hdf5.below(self._datasets, "generations") if name in known]
        self._folded = int(self._datasets[f"generations/{layout.GENERATION}"].shape[0])  # generations in the HDF5 file
        columns = layout.columns(self._names, self.config, self.sizes)
        with damage_reported(journal.path_of(self.path)):
            rows = checks.check_records(self.journal_records, self._datasets, self._attributes, columns, self.path)
        self._newer = records.rows_of(columns, rows)

    def __repr__(self) -> str:
        if not self.file:
            return f"<Run {self.path}, closed>"
        config = self.config
        parts = f"{config.task_name}, {config.method.algorithm}, {config.population.size} {config.population.row_name}s"
        done = f"{self.generations} of {config.run.generations} generations"
        return f"<Run {self.path}: {'sample of ' * is_study(self)}{parts}, {done}, {len(self)} arrays>"

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _check_open(self) -> None:
        if not self.file:
            raise RunFileError(f"{self.path} is closed; open it again with `ees_mpi.open_run`")

    def __getitem__(self, name: str) -> Series:
        """Return one array over all generations."""
        if name not in self.names:
            raise KeyError(f"{self.path} has no array {name!r}; it has {', '.join(self.names)}")
        if name not in self._series:
            self._series[name] = Series(self._datasets[f"generations/{name}"], self._newer[name], self.path)
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
        xarray = optional("xarray", "to_xarray needs xarray: pip install 'ees_mpi[analysis]'")
        arrays = {name: np.asarray(self[name]) for name in names or self.names}
        fields = layout.fields(self.config)
        axes = {name: (layout.GENERATION, *fields[name].axes) for name in arrays}
        sizes = {axis: size for name in arrays for axis, size in zip(axes[name], arrays[name].shape, strict=True)}
        about = {name: {"about": fields[name].about} for name in arrays}
        variables = {name: (axes[name], array, about[name]) for name, array in arrays.items()}
        coordinates = {axis: np.arange(size) for axis, size in sizes.items()}
        return xarray.Dataset(variables, coordinates, {"config": self.config.to_toml()})

    @property
    def damage(self) -> str:
        """A sentence about a journal that cannot be read to its end, or is of another run; empty if there is none."""
        beside, last = journal.path_of(self.path), self.generations - 1
        if self.journal.damaged:
            return f"{beside} is damaged: {self.journal.unread} bytes after generation {last} cannot be read"
        if self.journal.run_id not in ("", self.run_id):
            return f"{beside} is the journal of another run"
        return ""

    @property
    def cut(self) -> str:
        """A sentence about a journal that ends within a record, as it does while one is written, or that is missing."""
        beside = journal.path_of(self.path)
        if self.journal.missing and not self.closed and not beside.exists():  # a writer may have begun in between
            why = f"{beside} is missing, and the writer has not closed the run file"
            lost = f"generations from {self.generations} on may be lost"
            return f"{why}: {lost}. Move and copy an unfinished run together with its journal"
        if self.damage or not self.journal.cut:
            return ""
        unread = f"{self.journal.unread} bytes after generation {self.generations - 1}"
        return f"{beside} ends within a record: {unread} are ignored"

    @property
    def closed(self) -> bool:
        """False if the newest generations are in a journal: a writer is at work, or was killed."""
        return bool(self._attributes.get("closed", True))

    @property
    def complete(self) -> bool:
        """True if all generations of the config are committed."""
        return self.generations >= self.config.run.generations

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the file."""
        return dict(self._attributes)

    def state_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state after the last committed generation, as named arrays; its digest is checked."""
        if len(self._newer):
            return dict(self.journal.state)
        try:
            with damage_reported(self.path):
                return checks.whole_state(self._datasets, self._attributes)
        except RunFileError as error:
            raise RunFileError(f"{error}. {checks.ADVICE}") from None

    def check_last(self) -> None:
        """Check all that `resume` continues from: the state, the sessions, and that it follows the last generation."""
        state = self.state_arrays()
        self.check_generation(-1)
        if len(self._newer) and self._folded:  # a fold writes to the chunks of this one
            self.check_generation(self._folded - 1)
        self.sessions()
        with damage_reported(self.path):
            order = chunks.read(self._datasets[f"generations/{layout.GENERATION}"], 0, self._folded)
        if int(state["generation"]) != self.generations or not np.array_equal(order, np.arange(len(order))):
            raise RunFileError(f"{self.path} is damaged: its rows or its state are not those of its generations")

    def check_generation(self, generation: int) -> None:
        """Read all arrays of a generation; raise a RunFileError if one is damaged."""
        if generation == -1 and not self.generations:
            return
        for name in self.names:
            self[name][self.number_of(generation)]

    def check_all(self) -> None:
        """Read everything; raise a RunFileError that names what is damaged."""
        self.check_last()
        if listed := self.damages_in_words():
            raise RunFileError(f"{self.path} is damaged: wrong checksums in {listed}. {checks.ADVICE}")

    def damages_in_words(self) -> str:
        """Return the damaged arrays of the HDF5 file with their generations; empty if there are none."""
        listed = []
        for name, spans in self.damages().items():
            listed.append(f"{name} of generations {', '.join(f'{first} to {end - 1}' for first, end in spans)}")
        return f"{'; '.join(listed):.300}"

    def damages(self) -> dict[str, list[tuple[int, int]]]:
        """Return the damaged arrays of the HDF5 file, each with its damaged generations (first, end)."""
        found = {}
        for name, dataset in hdf5.below(self._datasets, "generations").items():
            if dataset.maxshape[0] is None:
                spans = chunks.damaged(dataset)
            else:  # the numbers of an axis
                with suppress(OSError):
                    if np.array_equal(dataset[()], np.arange(dataset.shape[0])):
                        continue
                spans = [(0, self._folded)]
            if spans:
                found[name] = spans
        return found

    def check_noise(self, noise: Noise) -> None:
        """Raise a RunFileError if numpy on this machine generates other noise than the run had."""
        if noise.digest() != self._attributes["noise_digest"]:
            written = (self._sessions or [{"machine": {}}])[-1]["machine"].get("numpy", "an unknown version")
            raise RunFileError(
                f"{self.path}: the noise table of this machine differs from that of the run; the file was written with "
                f"numpy {written}, this is numpy {np.__version__}. Install that version to continue"
            )

    def sessions(self) -> list[dict[str, Any]]:
        """Return the sessions that wrote the file: ranks, nodes, host, start, end, first generation, machine."""
        return [dict(session) for session in self._sessions]

    @cached_property
    def _sessions(self) -> list[dict[str, Any]]:
        with damage_reported(self.path):
            writers = sessions.with_new(sessions.read(hdf5.below(self._datasets, "sessions")), self.journal_records)
            return sessions.finished(writers, self["seconds_clock"])

    def device(self, generation: int) -> str:
        """Return the device that evaluated a generation: "cpu" or "cuda"."""
        return self.machine(generation).get("device", "cpu")

    def machine(self, generation: int) -> dict[str, str]:
        """Return the machine that computed a generation: packages, CPU, and GPU if it used one."""
        generation = self.number_of(generation) if generation < 0 else generation
        sessions = [session for session in self.sessions() if session["first_generation"] <= generation]
        return dict(sessions[-1]["machine"]) if sessions else {}

    def observation_sums(self, generation: int) -> Floats:
        """Return the observation sums before a generation."""
        if generation == self.generations:
            return np.asarray(self.state_arrays()["observations"])
        return np.asarray(self["observation_sums"][generation]) if "observation_sums" in self.names else np.zeros(1)

    def individual(self, generation: int, index: int) -> Singles:
        """Return the parameters [D] of one individual, rebuilt from the file."""
        if not self.config.population.has_individuals:
            raise RunFileError(
                f"{self.path}: the rows of a {self.config.method.algorithm} run are {self.config.population.row_name}s,"
                " not individuals that can be rebuilt; its mean can be exported, replayed and sampled"
            )
        generation = self.number_of(generation)
        if not 0 <= index < self.config.population.size:
            raise IndexError(f"individual {index} is not among the {self.config.population.size} of {self.path}")
        if self._noise is None:
            noise = Noise(self.config.noise_seed, self.config.noise.size)
            self.check_noise(noise)
            self._noise = noise
        if self._rebuilt is None or self._rebuilt[0] != generation:  # many individuals: read their generation once
            self._rebuilt = generation, self.learned(generation), self.draw(generation)
        _, learned, draw = self._rebuilt
        return self.config.population.individual(learned, draw, index, self._noise)


def open_run(path: str | os.PathLike[str], trust: bool = False, allow_damaged_journal: bool = False) -> Run:
    """Open a run file for reading.

    trust: its config may run code that it names, such as a task of the user; reading runs none

    allow_damaged_journal: read up to the damage
    """
    return Run(path, trust, allow_damaged_journal)


def missing(run: Run) -> str:
    """Return a sentence about a journal that is cut or missing, unless a writer is at work or was until now."""
    if not run.cut or lock.is_held(run.path) is not False:
        return ""
    return run.cut if run.journal.missing or journal.read(run.path).cut else ""


def tell_missing(run: Run) -> Run:
    """Return a run, and say in one line if generations of it may be missing."""
    if said := missing(run):
        say_on_stderr(f"ees-mpi: note: {said}\n")
    return run


def is_study(run: Run) -> bool:
    """Return whether the rows of a file are settings of `sample` or `measure`, not generations of training."""
    return bool(run.attributes["kind"] != "run")


def starting_note(run: Run) -> dict[str, Any]:
    """Return the file's note on the run or policy that it started from; empty if it started from random means."""
    return dict(json.loads(run.attributes["started_from"] or "{}"))


def read_arrays(path: Path, kind: str) -> tuple[dict[str, Any], Arrays]:
    """Return the attributes and the arrays by path of a file of `fold.write_arrays`; `kind`: its format."""
    file, datasets = open_datasets(path)
    with file, damage_reported(path):
        attributes = hdf5.attributes(file)
        if attributes.get("format") != kind:
            raise RunFileError(f"{path} is not a file of the kind {kind!r}")
        arrays = hdf5.read(datasets)
    if attributes.get("sha256") != hdf5.digest_of(arrays):  # HDF5's checksum of zeros is zero
        raise RunFileError(f"{path} is damaged: its arrays do not have the digest in it")
    return attributes, arrays
