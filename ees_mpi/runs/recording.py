"""The run file of a loop that the user writes. Only rank 0 has one, and only if the loop is recorded."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec

from ees_mpi import machine
from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.files import check_folder, check_writable
from ees_mpi.generation.results import uses_torch
from ees_mpi.generation.state import State
from ees_mpi.ranks import Ranks
from ees_mpi.registry.plugins import digests, sources
from ees_mpi.registry.trust import note_code
from ees_mpi.runs.start import PreparedRun, reopen
from ees_mpi.store.reader import open_run
from ees_mpi.store.safety import check_ours
from ees_mpi.store.writer import RunWriter, has_results

NO_END = 10**6  # generations of a recorded run whose end is not known


@dataclass
class Recording:
    """The file of a loop on this rank; it is created when the first outcomes are known."""

    create: Callable[[Config], RunWriter] | None = None
    writer: RunWriter | None = None

    @classmethod
    def new(cls, path: Path, state: State, overwrite: bool) -> "Recording":
        """Check that a new file can be written, and prepare it; it is not made yet."""
        check_folder(path)
        if overwrite:
            check_ours(path)
        elif path.exists() and has_results(path):
            again = "Strategy.resume continues it, overwrite=True starts again"
            raise RunFileError(f"{path} exists already; {again}")
        check_writable(path, "record")  # the file is made after the first generation of the user's simulator
        return cls(create=partial(RunWriter.create, path, state=state.arrays(), overwrite=overwrite))

    def begin(self, config: Config, state: State, ranks: Ranks) -> None:
        """Open the file on rank 0, if there is one, and note the session in it; called on all ranks together."""
        with ranks.together():
            if self.create:
                self.writer = self.create(config)
            if self.writer:
                here = {**machine.fingerprint(uses_torch(config)), "mpi": ranks.library, "device": "cpu"}
                here |= sources(config.to_toml())
                self.writer.begin_session(state.generation, ranks.size, ranks.nodes, here)
                note_code(config.tables(), digests())

    def close(self, config: Config, generations: int, finished: bool) -> None:
        """Close the file; `finished`: it says that the run is complete with so many generations."""
        writer, self.writer = self.writer, None
        if writer and finished:
            run = msgspec.structs.replace(config.run, generations=max(1, generations))
            writer.note_config(replace(config, run=run))
        if writer:
            writer.close()


def reopen_loop(path: Path, generations: int | None, force: bool, trust: bool) -> PreparedRun:
    """Open the file of a recorded loop to continue it, on rank 0."""
    with open_run(path, allow_damaged_journal=True) as run:
        if (task := run.config.task_name) != "own_loop":
            raise ConfigError(f"{path}: its task is {task}, not a loop; ees_mpi.train continues it")
    prepared = reopen(path, generations or NO_END, force, trust=trust)
    if prepared.finished:
        raise ConfigError(f"{path} has all of its {generations} generations; expected more generations")
    return prepared
