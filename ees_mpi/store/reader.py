"""Read run files at any time, from any process, without MPI."""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.config import Config, parse
from ees_mpi.errors import RunFileError
from ees_mpi.noise import Noise
from ees_mpi.outcomes import Floats, Singles
from ees_mpi.store import chain, checks, fits, hdf5, journal, layout, sessions, texts
from ees_mpi.store.arrays import RunArrays
from ees_mpi.store.records import CHAINED
from ees_mpi.store.safety import damage_reported, open_hdf5

CHECK_BYTES = 16 << 20  # read at a time while all hashes are checked


class Run(RunArrays):
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
        self._checked: set[int] = set()  # the generations whose hashes are right
        try:
            with damage_reported(self.path):
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
        self._sessions = sessions.read_all(
            self._file, self._version, self.run_id, self.journal_records, self["seconds_clock"]
        )

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

    def check_order(self) -> None:
        """Raise a RunFileError unless the rows are the generations 0, 1, 2, ... and the state follows the last one."""
        with damage_reported(self.path):
            order = self._file["generations"][layout.GENERATION][:]
            last = int(self.state_arrays()["generation"])
        whole = np.array_equal(order, np.arange(len(order)))
        if not whole or (last != self.generations and self._attributes["kind"] != "sample"):
            raise RunFileError(f"{self.path} is damaged: its rows or its state are not those of its generations")

    def check_generation(self, generation: int) -> None:
        """Raise a RunFileError if the arrays of a generation do not have the hashes that the file has for them."""
        generation = self.number_of(generation)
        if generation not in self._checked:
            row = self._rows(generation, generation + 1)[0].tobytes()
            with damage_reported(self.path):
                self._refuse([] if self._has_hash(generation, row) else [generation])
            self._checked.add(generation)

    def _rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return the arrays of some generations as one structured array."""
        rows = np.empty(stop - start, self._newer.dtype)
        for name in self.names:
            rows[name] = self[name][start:stop]
        return rows

    def _has_hash(self, generation: int, data: bytes) -> bool:
        """Return True if a generation has its hash; those of the journal are checked when it is read."""
        return generation >= self._folded or chain.has_hash(
            [column[generation] for column in self._hashes], self.run_id, self._version, generation, self._columns, data
        )

    @cached_property
    def _hashes(self) -> list[NDArray[Any]]:
        return [self._file["generations"][name][:] for name in layout.HASHES[self._version]]

    def _refuse(self, damaged: list[int]) -> None:
        if damaged:
            listed = ", ".join(map(str, damaged[:8])) + ", ..." * (len(damaged) > 8)
            cure = (
                checks.REPAIR
                if self.generations - 1 in damaged
                else "`ees-mpi repair` says which generations are whole"
            )
            raise RunFileError(f"{self.path} is damaged: generation {listed} does not have the hash in it. {cure}")

    def check_last(self) -> None:
        """Check the state, the order and the last generation: all that `resume` continues from."""
        self.check_order()
        self._check_links(self._folded - 1)

    def check_all(self) -> None:
        """Check the state, the order, the hashes of all generations, and the chain."""
        step = max(1, CHECK_BYTES // max(self._newer.dtype.itemsize, 1))
        damaged = []
        with damage_reported(self.path):
            for start in range(0, self.generations, step):
                rows = self._rows(start, min(start + step, self.generations))
                damaged += [start + g for g, row in enumerate(rows) if not self._has_hash(start + g, row.tobytes())]
            self._refuse(damaged)
        self.check_order()
        self._check_links(0)
        self._checked.update(range(self.generations))

    def _check_links(self, first: int) -> None:
        """Raise a RunFileError if a generation from `first` on does not follow the one before it."""
        with damage_reported(self.path):
            for generation, before in chain.broken_links(self._file) if self._version > 2 else ():
                if generation >= first:
                    if before >= 0:
                        self.check_generation(before)  # its damage breaks the link, too
                    raise RunFileError(
                        f"{self.path} is damaged: generation {generation} does not follow the one before"
                    )

    def check_noise(self, noise: Noise) -> None:
        """Raise a RunFileError if numpy on this machine generates other noise than the run had."""
        if noise.digest() != str(self._attributes["noise_digest"]):
            written = (self._sessions or [{"machine": {}}])[-1]["machine"].get("numpy", "an unknown version")
            raise RunFileError(
                f"{self.path}: the noise table of this machine differs from that of the run; the file was written with "
                f"numpy {written}, this is numpy {np.__version__}. Install that version to continue"
            )

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
        self.check_generation(generation)
        if self._noise is None:
            noise = Noise(int(self._attributes["noise_seed"]), int(self._attributes["noise_size"]))
            self.check_noise(noise)
            self._noise = noise
        return self.config.population.individual(self.learned(generation), self.draw(generation), index, self._noise)


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
