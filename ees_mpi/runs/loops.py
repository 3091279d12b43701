"""A loop of the user: its config, whose task takes the place of another; and its run file."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ees_mpi import config as configs
from ees_mpi.config import Config, with_base, written
from ees_mpi.config.changes import FAMILIES
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.files import check_folder, check_no_folder, check_writable
from ees_mpi.generation.state import State
from ees_mpi.ranks import Ranks
from ees_mpi.registry import Part
from ees_mpi.registry.search import FOLDERS
from ees_mpi.registry.toml import settings_of, source_of, tables
from ees_mpi.run import writing
from ees_mpi.run.file import check_ours, open_run
from ees_mpi.runs.start import PreparedRun, begin_session, load, reopen
from ees_mpi.store.writer import Writer, has_generations

NO_END = 10**6  # generations of a recorded run whose end is not known
# The sections of a loop that has no others.
DEFAULT = {"population": {"name": "normal", "size": 1000, "std": 0.02}, "objective": {"name": "maxent"}}


def sections_of(source: Any) -> dict[str, Any]:
    """Return the tables of a preset, a .toml file, a run file, a dict or a Config, whose task will be replaced.

    What is missing is `DEFAULT`.
    """
    source = source_of({} if source is None else source)
    if isinstance(source, Config):
        FOLDERS.extend(source.folders)
    if isinstance(source, Path):
        found = load(source, ()).sections()
    else:
        found = with_base(tables(written(source), (), str(source)))
    return found if found.get("method", "ees") != "ees" else {**DEFAULT, **found}


def config_of(
    source: Any, task: Mapping[str, Any], parts: Mapping[str, Any], keys: Mapping[str, Any], trust: bool = False
) -> Config:
    """Return the config of a loop; this runs no code of the user.

    source: of everything else; parts: by section, each a name, a dict, a settings object, own code, or None
    keys: single ones; trust: the code that a run file names may run
    """
    sections = sections_of(source)
    if sections.get("method", "ees") != "ees":
        raise ConfigError(f"config: expected an evolution strategy, got method {sections['method']!r}")
    settings = {key: value for key, value in keys.items() if value is not None}
    for kind, part in parts.items():
        if isinstance(part, str):
            settings[f"{kind}.name"] = part
        elif isinstance(part, Part):
            sections[kind] = FAMILIES[kind].section(part)
        elif isinstance(part, Mapping):
            sections[kind] = part
        elif callable(part) and not (isinstance(part, type) and issubclass(part, Part)):
            sections[kind] = {"name": "custom", "function": part}
        elif part is not None:
            own = "a function" if kind == "objective" else "a class"
            raise ConfigError(f"{kind}: expected a name, a dict, a settings object or {own} of yours, got {part!r:.80}")
    if not isinstance(sections.get("run", {}), Mapping):
        raise ConfigError(f"config: run: expected a table, got {sections['run']!r:.80}")
    run = {**sections.get("run", {}), "needs_start": False, "evaluate_mean_every": 0}  # the loop evaluates no mean
    given = {key: value for key, value in task.items() if value is not None}
    whole = source_of({**sections, "run": run, "task": {"name": "own_loop", **given}})
    return replace(configs.load(whole, settings_of(settings), trust), folders=tuple(FOLDERS))


@dataclass
class Recording:
    """The file of a loop on this rank: only rank 0 has one. It is created when the first outcomes are known."""

    create: Callable[[Config], Writer] | None = None
    writer: Writer | None = None
    sessions: Sequence[Mapping[str, Any]] = ()  # of a file that is resumed

    @classmethod
    def new(cls, name: str | os.PathLike[str], state: State, overwrite: bool) -> "Recording":
        """Check that a new file can be written, and prepare it; it is not made yet."""
        check_no_folder("record", name)
        path = Path(name).absolute()  # the loop of the user may change the present folder
        check_folder(path)
        if overwrite:
            check_ours(path)
        elif path.exists() and has_generations(path):
            again = "Strategy.resume continues it, overwrite=True starts again"
            raise RunFileError(f"{path} exists already; {again}")
        check_writable(path, "record")  # the file is made after the first generation of the user's simulator
        return cls(create=partial(writing.create, path, state=state.arrays(), overwrite=overwrite))

    def begin(self, config: Config, state: State, ranks: Ranks) -> None:
        """Open the file on rank 0, if there is one, and note the session in it; called on all ranks together."""
        with ranks.together():
            if self.create:
                self.writer = self.create(config)
            if self.writer:
                begin_session(self.writer, config, state.generation, self.sessions, ranks, device="cpu")

    @contextmanager
    def released_by_errors(self) -> Iterator[None]:
        """Release the file if an error ends a block: the program may go on, and resume the run later."""
        try:
            yield
        except BaseException:
            if self.writer:
                self.writer.release()
            self.writer = None
            raise

    def close(self, config: Config, generations: int, finished: bool) -> None:
        """Close the file; `finished`: it says that the run is complete with so many generations."""
        writer, self.writer = self.writer, None
        if writer and finished:
            run = msgspec.structs.replace(config.run, generations=max(1, generations))
            writing.note_config(writer, replace(config, run=run))
        if writer:
            writer.close()


def reopen_loop(path: Path, generations: int | None, force: bool, trust: bool) -> PreparedRun:
    """Open the file of a recorded loop to continue it, on rank 0."""
    with open_run(path, allow_damaged_journal=True) as run:
        if (task := run.config.task_name) != "own_loop":
            raise ConfigError(f"{path}: its task is {task}, not a loop; ees_mpi.train continues it")
        if generations == run.generations:  # before the file is locked
            raise ConfigError(f"{path} has all of its {generations} generations; expected more generations")
    return reopen(path, generations or NO_END, force, trust=trust)
