"""Finding or preparing the run file that a command is about: on rank 0, before anything is trained."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from ees_mpi import config as configs
from ees_mpi import origin
from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.state import first_state
from ees_mpi.store.reader import Run, open_run
from ees_mpi.store.writer import RunWriter, check_folder, exists, new_run_id


@dataclass(frozen=True)
class Request:
    """What the command line asks `train` for."""

    source: str
    settings: Sequence[str] = ()
    out: Path | None = None
    resume: bool = False
    overwrite: bool = False
    force: bool = False
    start: str | None = None  # RUN.h5[@generation] to start from

    def config(self) -> Config:
        """Read the config that the request describes."""
        config = configs.load(self.source, self.settings)
        configs.check(config)
        return config

    def path(self, config: Config) -> Path:
        """Return where the run file goes."""
        return self.out or Path(f"{Path(self.source).stem}-seed{config.run.seed}.h5")


@dataclass
class Opening:
    """A run about to be trained, as rank 0 found it; an existing file is held, a new one not made before it must be."""

    path: Path
    config: Config
    state: dict[str, Any]
    partial: dict[str, Any]  # outcomes of the next generation from before an interruption
    run_id: str
    writer: RunWriter | None = None
    create: Callable[[], RunWriter] | None = None  # where there is no writer yet

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return int(self.state["generation"]) >= self.config.run.generations

    def open(self) -> RunWriter:
        """Return the writer, making the file where it is new: the last step before training."""
        if self.writer is None and self.create is not None:
            self.writer = self.create()
        if self.writer is None:
            raise RunFileError(f"{self.path} was not opened")
        return self.writer

    def close(self) -> None:
        """Fold and let go of the file."""
        writer, self.writer = self.writer, None
        if writer:
            writer.close()

    def let_go(self) -> None:
        """Leave the file to be opened again, as it is."""
        writer, self.writer = self.writer, None
        if writer:
            writer.let_go()


def begin(request: Request) -> Opening:
    """Find or prepare the run file of a `train` command; on rank 0."""
    config = request.config()
    path = request.path(config)
    check_folder(path)
    if path.exists() and not request.overwrite:
        if not request.resume:
            raise exists(path)
        _check_same_run(path, config, request.start)
        return reopen(path, config.run.generations, request.force, config)
    _rehearse(config)
    state, note = origin.first_state_from(request.start, config) if request.start else (first_state(config), "")
    arrays, run_id = state.arrays(), new_run_id()

    def create() -> RunWriter:
        return RunWriter.create(
            path, config, arrays, request.overwrite, request.force, started_from=note, run_id=run_id
        )

    return Opening(path, config, arrays, {}, run_id, create=create)


def _check_same_run(path: Path, config: Config, start: str | None) -> None:
    """Refuse to go on with a file that was begun in another way, and say in which."""
    with open_run(path) as run:
        changed = configs.changed_keys(run.config, config)
        begun_from = json.loads(run.attributes["started_from"] or "null")
    if changed:
        raise ConfigError(f"{path} was begun with another config: {'; '.join(changed)}")
    if start:
        with open_run(origin.parse(start)[0]) as source:
            wanted = origin.read(source, origin.parse(start)[1]).about
        if begun_from is None or any(begun_from[key] != wanted[key] for key in ("run_id", "state_sha256")):
            raise ConfigError(f"{path} was not begun from {start}; leave --from out to go on with it as it is")


def reopen(path: Path, generations: int | None, force: bool, config: Config | None = None) -> Opening:
    """Open a run file to go on with it; on rank 0. `config`: in place of the file's own."""
    with open_run(path) as run:
        if run.attributes.get("kind") == "sample":
            raise RunFileError(f"{path} holds a sample of offspring; there is nothing to go on with")
        config = _with_generations(config or run.config, generations, run)
        configs.check(config)
        if run.complete and run.generations == config.run.generations and not run.journal_records:
            return Opening(path, config, run.state_arrays(), {}, run.run_id)
        _rehearse(config)
    writer = RunWriter.resume(path, config, force)
    with open_run(path) as run:  # again, now that nobody else writes it
        return Opening(path, config, run.state_arrays(), run.partial(), run.run_id, writer)


def _rehearse(config: Config) -> None:
    """Let an objective that can be wrong in itself find out before the run file is touched."""
    # Not in `check`: sampling offspring of a trained mean needs no objective, and no torch for it.
    configs.check_trainable(config)
    rehearse = getattr(config.objective, "rehearse", None)
    if rehearse:
        rehearse(config.population.size, config.task.behavior_dim)


def _with_generations(config: Config, generations: int | None, run: Run) -> Config:
    if generations is None:
        return config
    if generations < run.generations:
        raise ConfigError(
            f"--generations {generations}: {run.path} has {run.generations} already; expected at least that many"
        )
    return replace(config, run=msgspec.structs.replace(config.run, generations=generations))
