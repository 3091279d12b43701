"""The run file that `ees_mpi.Strategy` records: an ordinary one, whose task is the user's own loop."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from ees_mpi import machine
from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.generation.results import uses_torch
from ees_mpi.ranks import Ranks
from ees_mpi.store.reader import open_run
from ees_mpi.store.safety import check_ours
from ees_mpi.store.writer import RunWriter, check_folder, has_results


@dataclass
class LoopFile:
    """The file of a loop, or none. Only rank 0 has a writer."""

    wanted: bool  # there is a file
    create: Callable[[Config], RunWriter] | None = None  # makes a new file
    writer: RunWriter | None = None

    def open(self, config: Config, generation: int, ranks: Ranks) -> None:
        """Open the file on rank 0, and note the session in it; called on all ranks together."""
        with ranks.together():
            if ranks.is_root and self.create:
                self.writer = self.create(config)
            if self.writer:
                here = {**machine.fingerprint(uses_torch(config)), "mpi": ranks.library, "device": "cpu"}
                self.writer.begin_session(generation, ranks.size, ranks.nodes, here)

    def close(self, config: Config, generations: int, finished: bool | None) -> None:
        """Close the file. It then says that the run is complete; not if `finished` is False, or an exception is why.

        finished: None: the program may be ending because of an exception
        """
        writer, self.writer = self.writer, None
        if writer is None:
            return
        if finished or (finished is None and getattr(sys, "last_value", None) is None):
            run = msgspec.structs.replace(config.run, generations=max(1, generations))
            writer.note_config(replace(config, run=run))
        writer.close()


def check_target(path: Path, overwrite: bool) -> None:
    """Raise an error if a loop cannot be recorded in a file."""
    check_folder(path)
    if overwrite:
        check_ours(path)
    elif path.exists() and has_results(path):
        raise RunFileError(f"{path} exists already; Strategy.resume continues it, overwrite=True starts again")


def check_recorded(path: Path) -> None:
    """Raise a ConfigError if a run file was not recorded by a loop."""
    with open_run(path, allow_damaged_journal=True) as run:
        if run.config.task_name != "own_loop":
            raise ConfigError(f"{path}: its task is {run.config.task_name}, not a loop; ees_mpi.train continues it")
