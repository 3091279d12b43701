"""A loop of the user: its config, whose task takes the place of another; and its run file."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from ees_mpi import config as configs
from ees_mpi.config import BESIDE_TASK, Config, with_base, written
from ees_mpi.config.changes import FAMILIES
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.files import check_folder, check_no_folder, check_writable
from ees_mpi.generation import State
from ees_mpi.registry import Part
from ees_mpi.registry.search import FOLDERS, also
from ees_mpi.registry.toml import copied, settings_of, source_of, tables
from ees_mpi.run.file import check_ours, open_run
from ees_mpi.run.start import Prepared, load, note_config, reopen
from ees_mpi.store.writer import has_generations

NO_END = 10**6  # generations of a recorded run whose end is not known


def config_of(
    source: Any, task: Mapping[str, Any], parts: Mapping[str, Any], keys: Mapping[str, Any], trust: bool = False
) -> Config:
    """Return the config of a loop; this runs no code of the user.

    source: a preset, a .toml file, a run file, a dict or a Config; its task is replaced, and what is missing is
        `BESIDE_TASK`
    parts: by section, each a name, a dict, a settings object, own code, or None; keys: single ones
    trust: the code that a run file names may run
    """
    source = source_of({} if source is None else source)
    if isinstance(source, Config):
        also(source.folders)
    is_file = isinstance(source, Path)
    found = load(source, ()).sections() if is_file else with_base(tables(written(source), (), str(source)))
    if found.get("method", "ees") != "ees":
        raise ConfigError(f"config: expected an evolution strategy, got method {found['method']!r}")
    sections = {**copied(BESIDE_TASK), **found}
    settings = {key: value for key, value in keys.items() if value is not None}
    settings |= {"run.needs_start": False, "run.evaluate_mean_every": 0}  # the loop evaluates no mean
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
    given = {key: value for key, value in task.items() if value is not None}
    whole = source_of({**sections, "task": {"name": "own_loop", **given}})
    return replace(configs.load(whole, settings_of(settings), trust), folders=tuple(FOLDERS))


def prepare_file(name: str | os.PathLike[str], config: Config, state: State, overwrite: bool) -> Prepared:
    """Check that a new file can be written, and prepare it, on rank 0; it is not made yet."""
    check_no_folder("record", name)
    path = Path(name).absolute()  # the loop of the user may change the present folder
    check_folder(path)
    if overwrite:
        check_ours(path)
    elif path.exists() and has_generations(path):
        again = "Strategy.resume continues it, overwrite=True starts again"
        raise RunFileError(f"{path} exists already; {again}")
    check_writable(path, "record")  # the file is made after the first generation of the user's simulator
    return Prepared(path, Path(name), config, state, is_new=True, overwrite=overwrite)


def close_file(prepared: Prepared, config: Config, generations: int, finished: bool) -> None:
    """Close the file of a loop; `finished`: it says that the run is complete with so many generations."""
    if prepared.writer and finished:
        run = msgspec.structs.replace(config.run, generations=max(1, generations))
        note_config(prepared.writer, replace(config, run=run))
    prepared.close()


def reopen_loop(path: Path, generations: int | None, force: bool, trust: bool) -> Prepared:
    """Open the file of a recorded loop to continue it, on rank 0."""
    with open_run(path, allow_damaged_journal=True) as run:
        if (task := run.config.task_name) != "own_loop":
            raise ConfigError(f"{path}: its task is {task}, not a loop; ees_mpi.train continues it")
        if generations == run.generations:  # before the file is locked
            raise ConfigError(f"{path} has all of its {generations} generations; expected more generations")
    return reopen(path, generations or NO_END, force, trust=trust)
