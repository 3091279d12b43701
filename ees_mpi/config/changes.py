"""Changes of a config by `--set`, and of a preset by a config that is based on it.

A new part keeps the keys that it shares with the old part, and drops the others.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ees_mpi.config.methods import METHODS
from ees_mpi.registry import Family
from ees_mpi.registry.toml import Setting, apply, key_of
from ees_mpi.strategy.objectives import OBJECTIVES
from ees_mpi.strategy.optimizers import OPTIMIZERS
from ees_mpi.strategy.populations import POPULATIONS
from ees_mpi.tasks import TASKS

FAMILIES = {family.kind: family for family in (TASKS, POPULATIONS, OBJECTIVES, OPTIMIZERS)}


def change(sections: dict[str, Any], settings: Sequence[Setting]) -> list[str]:
    """Apply settings to the tables of a config; return a note for each part that drops keys.

    Only keys of the config itself are dropped. A key that the settings name is kept, and refused later if it is wrong.
    """
    wanted: dict[str, Any] = {}
    values = [apply(wanted, setting) for setting in settings]
    notes = make_room(sections, wanted)
    for setting, value in zip(settings, values, strict=True):
        apply(sections, (key_of(setting), value))
    return notes


def make_room(sections: dict[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Drop the keys that do not fit other tables, which will be put on top; return a note for each part."""
    notes = _change_method(sections, wanted.get("method"))
    for name, family in FAMILIES.items():
        section = wanted.get(name)
        if isinstance(section, dict) and isinstance(sections.get(name), dict):
            notes += _change_part(sections[name], section, family)
    return notes


def _change_method(sections: dict[str, Any], name: Any) -> list[str]:
    """Drop the sections that only the old method has."""
    before = sections.get("method", "ees")
    if not all(method in [*METHODS] for method in (name, before)):  # they may be anything, also lists
        return []
    needed = METHODS[name].method_sections
    dropped = [section for section in METHODS[before].method_sections if section in sections and section not in needed]
    for section in dropped:
        del sections[section]
    return [f"method={name} drops {', '.join(f'[{section}]' for section in dropped)}"] if dropped else []


def _change_part(section: dict[str, Any], wanted: dict[str, Any], family: Family) -> list[str]:
    """Drop the keys that the new part does not have, or not with a new value of another key, such as task.engine."""
    before, notes = section.get("name", family.default), []
    name = wanted.get("name", before)
    if not isinstance(name, str) or name not in [*family]:
        return []  # `build` reports it
    known = {"name", *(field.encode_name for field in msgspec.structs.fields(family[name]))}
    dropped = [key for key in section if key not in known]
    if before != name and dropped:
        for key in dropped:
            del section[key]
        keys = ", ".join(f"{family.kind}.{key}" for key in dropped)
        notes.append(f"{family.kind}.name={name} drops {keys}, which {name} does not have")
    for key, (other, needed) in family[name].only_with.items():
        if key in section and key not in wanted and wanted.get(other, needed) != needed:
            del section[key]
            notes.append(f"{family.kind}.{other}={wanted[other]} drops {family.kind}.{key}, which it does not have")
    return notes
