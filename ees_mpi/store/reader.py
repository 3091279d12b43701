"""Read run files at any time, from any process, without MPI."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.config import Config, parse
from ees_mpi.errors import RunFileError
from ees_mpi.noise import Noise
from ees_mpi.outcomes import Arrays, Draw, Floats, Singles, split_learned
from ees_mpi.store import chain, checks, fits, hdf5, journal, layout, sessions, texts
from ees_mpi.store.records import CHAINED
from ees_mpi.store.run_checks import RunChecks
from ees_mpi.store.safety import damage_reported, open_hdf5


class Run(RunChecks):
    """A run file: its config, its arrays by name, its individuals. Use it as a context manager, or `close` it.

    Generations count from 0, or from the end if they are negative: -1 is the last one.
    """

    def __init__(self, path: str | Path, trust: bool = False, allow_damaged_journal: bool = False):
        self.path = Path(path)
        self._trust = trust
        # The journal is read first: if the writer folds in between, records are read twice, but none is missed.
        self.journal = journal.read(self.path)
        self._file = open_hdf5(self.path)
        self._noise: Noise | None = None
        try:
            with damage_reported(self.path):
                _check_format(texts.attributes(self._file), self.path)
                self._interpret()
            if self.damage and not allow_damaged_journal:
                raise RunFileError(
                    f"{self.damage}. `ees-mpi repair` renames it, and keeps the generations that can be read"
                )
        except BaseException:
            self.close()
            raise

    def _interpret(self) -> None:
        """Read the config and the newest generations, and check that they belong together."""
        self._attributes = checks.attributes_of(self._file, self.path)
        self._version = chain.version_of(self._attributes)
        self.run_id: str = self._attributes["run_id"]
        if self.journal.run_id not in ("", self.run_id):
            self.journal = journal.read(self.path)  # `--overwrite` may have replaced both files in between
        self.journal_records = self.journal.records if self.journal.run_id == self.run_id else []
        checks.check_groups(self._file, self._attributes, self.path)
        text = self._attributes["config"]
        for record in self.journal_records:
            if record.kind in ("session", "config"):  # a later session may train more generations
                text = texts.text(record.arrays["config"].item())
        self.config: Config = parse(text, source=f"the config in {self.path}", trusted=self._trust)
        noise = self.config.noise_seed, self.config.noise.size
        if (int(self._attributes["noise_seed"]), int(self._attributes["noise_size"])) != noise:
            raise ValueError("its attributes have another noise table than its config")
        self._sizes = checks.check_shapes(self._file, self.config, self._version, self.path)
        if hasattr(self.config.population, "stds") and "std" not in self._file["generations"]:
            raise RunFileError(f"{self.path} is damaged: it has no generations/std")
        self._columns = layout.columns(self._names, self.config, self._sizes)
        rows = hdf5.newer(self.journal_records, self._folded, self.path)
        with damage_reported(journal.path_of(self.path)):
            checks.check_records(self.journal_records, self._file, self._columns, self._version)
        self._newer = chain.rows_of(self._columns, rows)
        self._sessions = self._read_sessions()

    @property
    def damage(self) -> str:
        """A sentence about a journal that cannot be read to its end, or is of another run; empty if there is none."""
        beside, last = journal.path_of(self.path), self.generations - 1
        if self.journal.damaged:
            return f"{beside} is damaged: {self.journal.unread} bytes after generation {last} cannot be read"
        if self.journal.run_id not in ("", self.run_id):
            return f"{beside} is the journal of another run"
        return ""

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def last_hash(self) -> bytes:
        """The hash of the last session or generation, which that of the next one contains."""
        newest = [record for record in self.journal_records if record.kind in CHAINED]
        return newest[-1].hash if newest else chain.last_hash(self._file, self._version)

    @property
    def complete(self) -> bool:
        """True if all generations of the config are committed."""
        return self.generations >= self.config.run.generations

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the file."""
        return dict(self._attributes)

    def state_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state after the last committed generation, as named arrays; its hash is checked."""
        with damage_reported(self.path):
            state = dict(self.journal.state) if len(self._newer) else {}
            if not state:
                if not checks.is_whole_state(self._file, "final", self._attributes):
                    which = f"{self.path} is damaged: the state after its last generation"
                    raise RunFileError(f"{which} does not have its hash. {checks.REPAIR}")
                state = texts.datasets(self._file["final"])
            fits.check_state(state, self.config, self._sizes, self._attributes["kind"] == "run")
        if self.generations:
            self.check_generation(-1)  # it holds the digest of the state, and ties it to this run
        return state

    def partial(self) -> dict[str, NDArray[Any]]:
        """Return the outcomes of the next generation, if it was interrupted; else nothing."""
        partial = [record for record in self.journal_records if record.kind == "partial"]
        saved = [record.arrays for record in partial if record.number == self.generations]
        with damage_reported(self.path):
            if not saved and "partial" in self._file:
                stored = texts.datasets(self._file["partial"])
                saved = [stored] if int(stored.pop("generation")) == self.generations else []
            for arrays in saved[-1:]:
                fits.check_partial(arrays, self.config, self._sizes)
        return saved[-1] if saved else {}

    def sessions(self) -> list[dict[str, Any]]:
        """Return the sessions that wrote the file: ranks, nodes, host, start, end, first generation, machine."""
        return [dict(session) for session in self._sessions]

    def _read_sessions(self) -> list[dict[str, Any]]:
        writers = sessions.read(self._file, self._version, self.run_id)
        new = [record for record in self.journal_records if record.kind == "session" and record.number >= len(writers)]
        writers += map(sessions.of_record, new)
        ends = [session["first_generation"] for session in writers[1:]] + [self.generations]
        for session, end in zip(writers, ends, strict=False):
            session["machine"] = json.loads(session["machine"])
            wrote = session["first_generation"] < min(end, self.generations)
            session["end"] = float(self["seconds_clock"][min(end, self.generations) - 1]) if wrote else session["start"]
        return writers

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
        """Return the observation sums before a generation; older files have only its statistics, with a floor."""
        if generation == self.generations:
            return np.asarray(self.state_arrays()["observations"])
        if "observation_sums" in self.names:
            return np.asarray(self["observation_sums"][generation])
        count, (mean, std) = self["observation_count"][generation], self.observation_statistics(generation)
        return np.concatenate([[count], count * mean, count * (np.square(std) + np.square(mean))])

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
        self.check_generation(generation)
        if self._noise is None:
            noise = Noise(int(self._attributes["noise_seed"]), int(self._attributes["noise_size"]))
            self.check_noise(noise)
            self._noise = noise
        return self.config.population.individual(self.learned(generation), self.draw(generation), index, self._noise)

    def learned(self, generation: int) -> Arrays:
        """Return the learned arrays from which a generation was drawn."""
        learned: Arrays = {name: self[name][generation] for name in ("mean", "std") if name in self.names}
        if "learned" not in self.names:
            return learned
        like = {**self.config.population.learned(learned["mean"]), **learned}
        return split_learned(self["learned"][generation], like)


def open_run(path: str | Path, trust: bool = False, allow_damaged_journal: bool = False) -> Run:
    """Open a run file for reading; `trust`: code that it names may run; the other: read up to a journal's damage."""
    return Run(path, trust, allow_damaged_journal)


def config_text(path: Path) -> str:
    """Return the config of a run file as TOML; empty if it cannot be read."""
    try:
        with open_hdf5(path) as file, damage_reported(path):
            return str(texts.attributes(file).get("config", ""))
    except OSError:
        return ""  # `open_run` reports it, from one rank


def _check_format(attributes: Mapping[str, Any], path: Path) -> None:
    """Raise a RunFileError unless a file is a run file of a known format."""
    kind, version = attributes.get("format"), attributes.get("format_version", 0)
    if kind == "ees_mpi adaptation":
        raise RunFileError(f"{path} is an adaptation file, made by `ees-mpi adapt`; expected a run file")
    if kind != layout.FORMAT or not isinstance(version, (int, np.integer)):
        raise RunFileError(f"{path} is HDF5, but not a run file of ees_mpi")
    if version not in layout.SESSIONS:
        expected = f"{layout.OLDEST} to {layout.FORMAT_VERSION}"
        cure = "Update it" if version > layout.FORMAT_VERSION else "An older version wrote the file"
        raise RunFileError(f"{path} has format {version}; this version of ees_mpi reads {expected}. {cure}")
