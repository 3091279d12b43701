"""The config of a loop or a function of the user, whose task takes the place of the config's own."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ees_mpi import config as configs
from ees_mpi.config import Config, with_base, written
from ees_mpi.config.changes import FAMILIES
from ees_mpi.errors import ConfigError
from ees_mpi.registry import Part
from ees_mpi.registry.search import FOLDERS, beside
from ees_mpi.registry.toml import settings_of, source_of, tables
from ees_mpi.runs.start import load

# The sections of a loop or a function of the user that has no others.
DEFAULT = {"population": {"name": "normal", "size": 1000, "std": 0.02}, "objective": {"name": "maxent"}}


def sections_of(source: Any) -> dict[str, Any]:
    """Return the tables of a preset, a .toml file, a run file, a dict or a Config, whose task will be replaced.

    What is missing is `DEFAULT`.
    """
    source = source_of({} if source is None else source)
    if isinstance(source, Config):
        FOLDERS.extend(source.folders)
    if isinstance(source, Path):
        beside(source, run=True)
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
