"""What a run file means: its config, its individuals, its draws. What it holds is the store's.

Reading an array needs no config. It is parsed when it is first used, and compared with the list of arrays then.
"""

import json
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ees_mpi.arrays import digest
from ees_mpi.errors import RunFileError, optional
from ees_mpi.store import hdf5, journal, lock
from ees_mpi.store.files import damage_reported
from ees_mpi.store.layout import GENERATION
from ees_mpi.store.reader import ADVICE, Reader, Series, format_of
from ees_mpi.terminal import say_on_stderr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ees_mpi.arrays import Arrays, Floats, Singles
    from ees_mpi.config import Config
    from ees_mpi.generation import Draw
    from ees_mpi.metrics import Settings
    from ees_mpi.noise import Noise
    from ees_mpi.ranks import Ranks

__all__ = ["Run", "Series", "open_run"]


class Run(Reader):
    """A run file: its config, its arrays by name, its individuals. Use it as a context manager, or `close` it.

    `run["entropy"]` is an array over the generations, read in slices when it is used. Generations count from 0, or from
    the end if they are negative: -1 is the last one.
    """

    def __init__(self, path: str | os.PathLike[str], trust: bool = False, allow_damaged_journal: bool = False):
        self._trust = trust
        self._noise: Noise | None = None
        self._rebuilt: tuple[int, Arrays, Draw] | None = None  # the generation of the last individual
        super().__init__(path, allow_damaged_journal)

    def __repr__(self) -> str:
        if not self.file:
            return f"<Run {self.path}, closed>"
        config = self.config
        parts = f"{config.task_name}, {config.method.algorithm}, {config.population.size} {config.population.row_name}s"
        done = f"{self.generations} of {self.attributes['until']} generations"
        return f"<Run {self.path}: {'sample of ' * is_study(self)}{parts}, {done}, {len(self)} arrays>"

    @cached_property
    def config(self) -> "Config":
        """The config of the run; a RunFileError if the file has not the arrays that it asks for."""
        from ees_mpi.config import parse
        from ees_mpi.run.arrays import check

        with damage_reported(self.path):
            text = self.attributes["config"]
            config = parse(text, source=f"the config in {self.path}", trust=self._trust, stored=True)
            check(self.layout, config)
        return config

    @cached_property
    def metric_settings(self) -> "Settings":
        """What metrics must know of the run."""
        import msgspec

        from ees_mpi.metrics import Settings

        with damage_reported(self.path):
            return msgspec.json.decode(self.attributes["metrics"], type=Settings)

    @property
    def logged_metrics(self) -> list[str]:
        """The names of the metrics in the file, and of the user's objectives; an earlier version logged fewer."""
        from ees_mpi.metrics import in_file

        return [*(name for name in in_file(self.metric_settings) if name in self), *self.metric_settings.own_names]

    def metrics(self, generation: int = -1) -> dict[str, float]:
        """Return the logged metrics of a generation by name, also the values of the user's objectives."""
        return {name: float(self.metric(name, generation)) for name in self.logged_metrics}

    def metric(self, name: str, generation: Any = slice(None)) -> "NDArray[Any]":
        """Return a logged metric, or the value of an objective of the user, of all generations or of one."""
        from ees_mpi.generation import OWN

        own = self.metric_settings.own_names
        return self[OWN][generation][..., own.index(name)] if name in own else np.asarray(self[name][generation])

    @property
    def complete(self) -> bool:
        """True if all generations of the config are committed."""
        return bool(self.generations >= self.attributes["until"])

    def draw(self, generation: int) -> "Draw":
        """Return the draw of the individuals of a generation."""
        from ees_mpi.generation import Draw

        std = float(self["mutation_std"][generation]) if "mutation_std" in self else None
        return Draw(self["offset"][generation], self["sign"][generation], self["parent"][generation], std)

    def learned(self, generation: int) -> "Arrays":
        """Return the learned arrays from which a generation was drawn."""
        from ees_mpi.generation import split_learned

        with damage_reported(self.path):
            shapes = json.loads(self.attributes["learned"])
            if "learned" not in self:
                return {name: self[name][generation] for name in shapes}
            mean = self["mean"][generation]
            others = {name: np.broadcast_to(np.float32(0), shapes[name]) for name in shapes if name != "mean"}
            return split_learned(self["learned"][generation], {"mean": mean, **others})

    def std(self, generation: int) -> float:
        """Return the standard deviation of the mutations of a generation; the median of a learned one."""
        for name in ("std", "mutation_std"):
            if name in self:
                return float(np.median(self[name][generation]))
        return float(self.config.population.std)

    def observation_statistics(self, generation: int) -> tuple["Floats", "Floats"]:
        """Return the mean and std that normalised the observations of a generation; empty if there are none."""
        if "observation_mean" not in self:
            return np.zeros(0), np.ones(0)
        return self["observation_mean"][generation], self["observation_std"][generation]

    def observation_sums(self, generation: int) -> "Floats":
        """Return the observation sums before a generation."""
        if generation == self.generations:
            return np.asarray(self.state_arrays()["observations"])
        return np.asarray(self["observation_sums"][generation]) if "observation_sums" in self else np.zeros(1)

    def sessions(self) -> list[dict[str, Any]]:
        """Return the sessions that wrote the file: ranks, nodes, host, start, end, first generation, machine."""
        return [dict(session) for session in self._sessions]

    @cached_property
    def _sessions(self) -> list[dict[str, Any]]:
        with damage_reported(self.path):
            return [{**session, "machine": dict(json.loads(session["machine"]))} for session in super().sessions()]

    def machine(self, generation: int) -> dict[str, str]:
        """Return the machine that computed a generation: packages, CPU, and GPU if it used one."""
        generation = self.number_of(generation) if generation < 0 else generation
        sessions = [session for session in self._sessions if session["first_generation"] <= generation]
        return dict(sessions[-1]["machine"]) if sessions else {}

    def device(self, generation: int) -> str:
        """Return the device that evaluated a generation: "cpu" or "cuda"."""
        return self.machine(generation).get("device", "cpu")

    def check_last(self) -> None:
        """Check all that `resume` continues from: the last rows, the sessions, and that the state follows them."""
        super().check_last()
        if not self.generations:
            return
        state = self.state_arrays()
        if digest(state).hex() != self["state_sha256"][-1].decode() or int(state["generation"]) != self.generations:
            raise RunFileError(f"{self.path} is damaged: its state is not that of its last generation. {ADVICE}")

    def check_noise(self, noise: "Noise") -> None:
        """Raise a RunFileError if numpy on this machine generates other noise than the run had."""
        if noise.digest() != self.attributes["noise_digest"]:
            written = (self._sessions or [{"machine": {}}])[-1]["machine"].get("numpy", "an unknown version")
            raise RunFileError(
                f"{self.path}: the noise table of this machine differs from that of the run; the file was written with "
                f"numpy {written}, this is numpy {np.__version__}. Install that version to continue"
            )

    def individual(self, generation: int, index: int) -> "Singles":
        """Return the parameters [D] of one individual, rebuilt from the file."""
        population = self.config.population
        if not population.has_individuals:
            raise RunFileError(
                f"{self.path}: the rows of a {self.config.method.algorithm} run are {population.row_name}s,"
                " not individuals that can be rebuilt; its mean can be exported, replayed and sampled"
            )
        generation = self.number_of(generation)
        if not 0 <= index < population.size:
            raise IndexError(f"individual {index} is not among the {population.size} of {self.path}")
        if self._noise is None:
            from ees_mpi.noise import Noise

            noise = Noise(self.attributes["noise_seed"], self.attributes["noise_size"])
            self.check_noise(noise)
            self._noise = noise
        if self._rebuilt is None or self._rebuilt[0] != generation:  # many individuals: read their generation once
            self._rebuilt = generation, self.learned(generation), self.draw(generation)
        _, learned, draw = self._rebuilt
        return population.individual(learned, draw, index, self._noise)

    def to_xarray(self, *names: str) -> Any:
        """Return arrays in memory as an `xarray.Dataset` with named axes; all of them, if no names are given."""
        xarray = optional("xarray", "to_xarray needs xarray: pip install 'ees_mpi[analysis]'")
        about = {array.name: array for array in self.layout.arrays}
        arrays = {name: np.asarray(self[name]) for name in names or self}
        axes = {name: (GENERATION, *about[name].axes) for name in arrays}
        sizes = {axis: size for name in arrays for axis, size in zip(axes[name], arrays[name].shape, strict=True)}
        variables = {name: (axes[name], array, {"about": about[name].about}) for name, array in arrays.items()}
        coordinates = {axis: np.arange(size) for axis, size in sizes.items()}
        return xarray.Dataset(variables, coordinates, {"config": self.attributes["config"]})


def open_run(path: str | os.PathLike[str], trust: bool = False, allow_damaged_journal: bool = False) -> Run:
    """Open a run file for reading.

    trust: its config may run code that it names, such as a task of the user; reading runs none

    allow_damaged_journal: read up to the damage
    """
    return Run(path, trust, allow_damaged_journal)


def open_on_ranks(ranks: "Ranks", path: Path, trust: bool, needed: Sequence[str]) -> Run:
    """Open a run file on every rank; rank 0 decides for all whether the code that it names may run.

    needed: the sections whose code the caller will run
    """
    from ees_mpi.config import check_code

    with ranks.together():
        run = open_run(path, trust)
        if ranks.is_root:
            tell_missing(run)
    run.config = ranks.from_root(lambda: run.config)
    with ranks.together():
        check_code(run.config, needed)
    return run


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


def check_ours(path: Path) -> None:
    """Raise a RunFileError if `--overwrite` would replace a file that ees_mpi did not write."""
    if not path.is_file():
        return
    try:
        ours = format_of(path).startswith(hdf5.FORMAT.partition(" ")[0])
    except RunFileError:
        ours = False
    if not ours:
        kept = "--overwrite does not replace it; choose another name"
        raise RunFileError(f"{path} was not written by ees_mpi, or is damaged: {kept}")
