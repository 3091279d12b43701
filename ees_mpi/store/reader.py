"""Read run files at any time, from any process, without MPI."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ees_mpi.config import Config, parse
from ees_mpi.errors import RunFileError
from ees_mpi.noise import Noise
from ees_mpi.outcomes import Arrays, Draw, Floats, Singles, split_learned
from ees_mpi.store import checks, hdf5, journal, layout
from ees_mpi.store.arrays import RunArrays
from ees_mpi.store.safety import damage_reported, open_hdf5, real

CHECK_BYTES = 16 << 20  # read at a time while all hashes are checked


class Run(RunArrays):
    """A run file: its config, its arrays by name, its individuals. Use it as a context manager, or `close` it.

    Generations count from 0, or from the end if they are negative: -1 is the last one.
    """

    def __init__(self, path: str | Path, trust: bool = False, allow_damaged_journal: bool = False):
        self.path = Path(path)
        self._trust = trust
        real(self.path)
        if self.path.is_dir():
            raise RunFileError(f"{path} is a folder; expected a run file")
        # The journal is read first: if the writer folds in between, records are read twice, but none is missed.
        self.journal = journal.read(self.path)
        self._file = _open(self.path)
        self._noise: Noise | None = None
        self._checked: set[int] = set()  # generations whose hashes are right
        try:
            with damage_reported(self.path):
                self._interpret()
            if self.journal.damaged and not allow_damaged_journal:
                raise RunFileError(f"{self.damage}. `ees-mpi repair` keeps the generations before it")
        except BaseException:
            self.close()
            raise

    def _interpret(self) -> None:
        """Read the config and the newest generations, and check that they belong together."""
        self.run_id = str(self._file.attrs["run_id"])
        self.journal_records = self.journal.records if self.journal.run_id == self.run_id else []
        if self.hashed:
            checks.check_small(self._file, self.path)
        checks.check_texts(self._file)
        text = str(self._file.attrs["config"])
        for record in self.journal_records:
            text = record.get("config", text)  # a later session may train more generations
        self.config: Config = parse(text, source=f"the config in {self.path}", trusted=self._trust)
        checks.check_noise_table(self._file, self.config.noise_seed, self.config.noise.size)
        checks.check_shapes(self._file, self.config.population.size, self.path)
        if hasattr(self.config.population, "stds") and "std" not in self._file["generations"]:
            raise RunFileError(f"{self.path} is damaged: it has no generations/std")
        with damage_reported(journal.path_of(self.path)):
            checks.check_records(self.journal_records, self._file)
        self._newer = hdf5.newer(self.journal_records, self._folded, self.path)
        self._sessions = self._read_sessions()

    @property
    def hashed(self) -> bool:
        """True if the file has hashes; files of format 1 have none."""
        return int(self._file.attrs["format_version"]) > 1

    @property
    def damage(self) -> str:
        """A sentence about a journal that cannot be read to its end, or is of another run; empty if there is none."""
        beside, last = journal.path_of(self.path), self.generations - 1
        if not self.journal.whole:
            return f"{beside} is damaged: {self.journal.unread} bytes after generation {last} cannot be read"
        if self.journal.run_id not in ("", self.run_id):
            return f"{beside} is the journal of another run; it is not used"
        return ""

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def complete(self) -> bool:
        """True if all generations of the config are committed."""
        return self.generations >= self.config.run.generations

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the file."""
        return dict(self._file.attrs)

    def state_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state after the last committed generation, as named arrays; its hash is checked."""
        with damage_reported(self.path):
            state = dict(self._newer[-1]["state"]) if self._newer else checks.checked_state(self._file, self.path)
        checks.check_finite(state["mean"], f"after generation {self.generations - 1}", self.path)
        return state

    def partial(self) -> dict[str, NDArray[Any]]:
        """Return the outcomes of the next generation, if it was interrupted; else nothing."""
        for record in reversed(self.journal_records):
            if record["kind"] == "partial" and record["generation"] == self.generations:
                return dict(record["arrays"])
        if "partial" in self._file and int(self._file["partial/generation"][()]) == self.generations:
            return {name: self._file[f"partial/{name}"][()] for name in ("rows", "observations")}
        return {}

    def sessions(self) -> list[dict[str, Any]]:
        """Return the sessions that wrote the file: ranks, nodes, host, start, end, first generation, machine."""
        return [dict(session) for session in self._sessions]

    def _read_sessions(self) -> list[dict[str, Any]]:
        group = self._file["sessions"]
        known = [{name: _plain(group[name][row]) for name in layout.SESSIONS} for row in range(len(group["session"]))]
        for session in known:
            session["machine"] = checks.json_object(session["machine"])
        for record in self.journal_records:
            if record["kind"] == "session" and record["session"] >= len(known):
                known.append({name: record.get(name, record["start"]) for name in layout.SESSIONS})
            elif record["kind"] == "generation" and known:
                known[-1]["end"] = float(record["arrays"]["seconds_clock"])
        for session in known:
            checks.check_times(session)
        return known

    def device(self, generation: int) -> str:
        """Return the device that evaluated a generation: "cpu" or "cuda"."""
        generation = self.number_of(generation) if generation < 0 else generation
        sessions = [session for session in self.sessions() if session["first_generation"] <= generation]
        return str(sessions[-1]["machine"].get("device", "cpu")) if sessions else "cpu"

    @property
    def has_observation_sums(self) -> bool:
        """Whether the file logs the observation sums of each generation, or needs none."""
        return "observation_sums" in self.names or self.config.task.observation_dim == 0

    def observation_sums(self, generation: int) -> Floats:
        """Return the observation sums before a generation: logged, or those of the final state."""
        if generation < self.generations and "observation_sums" in self.names:
            return np.asarray(self["observation_sums"][generation])
        return np.asarray(self.state_arrays()["observations"])

    def draw(self, generation: int) -> Draw:
        """Return the draw of the individuals of a generation; a RunFileError if no run can have drawn it."""
        found = Draw(self["offset"][generation], self["sign"][generation], self["parent"][generation])
        _, means, width = self["mean"].shape
        if (found.offset < 0).any() or (found.offset > self.config.noise.size - width).any():
            raise RunFileError(f"{self.path} is damaged: generation {generation} has offsets outside the noise table")
        if (found.parent < 0).any() or (found.parent >= means).any():
            raise RunFileError(f"{self.path} is damaged: generation {generation} has parents that do not exist")
        return found

    def observation_statistics(self, generation: int) -> tuple[Floats, Floats]:
        """Return the mean and std that normalised the observations of a generation; empty if there are none."""
        if "observation_mean" not in self.names:
            return np.zeros(0), np.ones(0)
        return self["observation_mean"][generation], self["observation_std"][generation]

    def individual(self, generation: int, index: int) -> Singles:
        """Return the parameters [D] of one individual, rebuilt from the file."""
        if self.config.population.rows != "individual":
            raise RunFileError(
                f"{self.path}: the rows of a {self.config.method.algorithm} run are {self.config.population.rows}s, "
                "not individuals that can be rebuilt; its mean can be exported, replayed and sampled"
            )
        generation = self.number_of(generation)
        if not 0 <= index < self.config.population.size:
            raise IndexError(f"individual {index} is not among the {self.config.population.size} of {self.path}")
        self.check_generation(generation)
        if self._noise is None:
            noise = Noise(int(self._file.attrs["noise_seed"]), int(self._file.attrs["noise_size"]))
            self.check_noise(noise)
            self._noise = noise
        return self.config.population.individual(self.learned(generation), self.draw(generation), index, self._noise)

    def learned(self, generation: int) -> Arrays:
        """Return the learned arrays from which a generation was drawn."""
        found: Arrays = {name: self[name][generation] for name in ("mean", "std") if name in self.names}
        if "learned" not in self.names:
            return found
        return split_learned(self["learned"][generation], {**self.config.population.learned(found["mean"]), **found})

    def check_order(self) -> None:
        """Raise a RunFileError unless the rows are the generations 0, 1, 2, ... and the state follows the last one."""
        with damage_reported(self.path):
            order = self._file["generations"][layout.GENERATION][:]
            last = int(self.state_arrays()["generation"])
        whole = np.array_equal(order, np.arange(len(order)))
        if not whole or (last != self.generations and self.attributes.get("kind") != "sample"):
            raise RunFileError(f"{self.path} is damaged: its rows or its state are not those of its generations")

    def check_generation(self, generation: int) -> None:
        """Raise a RunFileError if the arrays of a generation do not have the hashes that the file has for them."""
        generation = self.number_of(generation)
        if self.hashed and generation not in self._checked:
            checks.check_row(
                {name: np.asarray(self[name][generation, ...]) for name in self.names}, generation, self.path
            )
            self._checked.add(generation)

    def check_last(self) -> None:
        """Check the state, the order and the last generation: all that `resume` continues from."""
        with damage_reported(self.path):
            checks.check_run_id(self.run_id)
        self.check_order()
        if self.generations:
            self.check_generation(self.generations - 1)

    def check_all(self) -> None:
        """Check the state, the order and the hashes of all generations."""
        self.check_order()
        series = {name: self[name] for name in self.names} if self.hashed else {}
        row = sum(int(np.prod(each.shape[1:])) * each.dtype.itemsize for each in series.values())
        step = max(1, CHECK_BYTES // max(row, 1))
        for start in range(0, self.generations if self.hashed else 0, step):
            block = {name: each[start : start + step] for name, each in series.items()}
            for generation in range(start, min(start + step, self.generations)):
                rows = {name: values[generation - start, ...] for name, values in block.items()}
                checks.check_row(rows, generation, self.path)
        self._checked.update(range(self.generations))

    def check_noise(self, noise: Noise) -> None:
        """Raise a RunFileError if numpy on this machine generates other noise than the run had."""
        if noise.digest() != str(self._file.attrs["noise_digest"]):
            written = (self.sessions() or [{"machine": {}}])[-1]["machine"].get("numpy", "an unknown version")
            raise RunFileError(
                f"{self.path}: the noise table of this machine differs from that of the run; the file was written with "
                f"numpy {written}, this is numpy {np.__version__}. Install that version to continue"
            )


def open_run(path: str | Path, trust: bool = False, allow_damaged_journal: bool = False) -> Run:
    """Open a run file for reading; `trust`: code that it names may run; the other: read up to a journal's damage."""
    return Run(path, trust, allow_damaged_journal)


def config_text(path: Path) -> str:
    """Return the config of a run file as TOML; empty if it cannot be read."""
    try:
        with open_hdf5(path) as file, damage_reported(path):
            return str(file.attrs.get("config", ""))
    except OSError:
        return ""  # `open_run` reports it, from one rank


def _open(path: Path) -> h5py.File:
    file = open_hdf5(path)
    try:
        with damage_reported(path):
            kind, version = file.attrs.get("format"), file.attrs.get("format_version", 0)
            problem = ""
            if kind == "ees_mpi adaptation":
                problem = "is an adaptation file, made by `ees-mpi adapt`; expected a run file"
            elif kind != layout.FORMAT or not isinstance(version, (int, np.integer)):
                problem = "is HDF5, but not a run file of ees_mpi"
            elif version > layout.FORMAT_VERSION:
                problem = (
                    f"has format {version}; this version of ees_mpi reads up to {layout.FORMAT_VERSION}. Update it"
                )
            if problem:
                raise RunFileError(f"{path} {problem}")
    except BaseException:
        file.close()
        raise
    return file


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value.item() if hasattr(value, "item") else value
