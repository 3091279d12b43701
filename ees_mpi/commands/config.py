"""`ees-mpi config`: the whole config of a preset, a file, a run or a dict; all keys."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ees_mpi.commands.arguments import source_of
from ees_mpi.config import with_base, written
from ees_mpi.registry import check_trust, flat, texts
from ees_mpi.registry.toml import tables
from ees_mpi.runs.start import load
from ees_mpi.tasks.function import give

# The sections of a loop or a function of the user that has no others.
DEFAULT = {"population": {"name": "normal", "size": 1000, "std": 0.02}, "objective": {"name": "maxent"}}


def sections_of(source: Any) -> dict[str, Any]:
    """Return the tables of a preset, a .toml file, a run file, a dict or a Config, whose task will be replaced.

    What is missing is `DEFAULT`. The code that a run file names, except its task, must be trusted.
    """
    source = source_of({} if source is None else source)
    if isinstance(source, Path):
        found = load(source, ()).sections()
        for key, text in texts({name: table for name, table in found.items() if name != "task"}):
            check_trust(text, key)
    else:
        found = with_base(tables(written(source), (), str(source)))
    return found if found.get("method", "ees") != "ees" else {**DEFAULT, **found}


def with_function(
    source: Any, task: Callable[..., Any], keys: Mapping[str, Any], mean: Any, keep_source: bool
) -> dict[str, Any]:
    """Return the tables of a source with a function of the user as their task; `keys`: those of the task, or None."""
    sections = sections_of(source)
    before = sections.get("task", {})
    known = {key: before[key] for key in keys if before.get("name") == "function" and key in before}
    given = {key: value for key, value in keys.items() if value is not None}
    return {**sections, "task": {"name": "function", **known, **given, **give(task, mean, keep_source)}}


def keys(source: str | None, settings: Sequence[str], as_json: bool) -> Iterable[str]:
    """Return lines with every key; with a source, the keys of its config with their values."""
    from ees_mpi.config import keys

    values = dict(flat(load(source_of(source), settings).sections())) if source else None
    if as_json:
        return [json.dumps(keys.data(keys.sections(), values))]
    return keys.text(keys.sections(), values)
