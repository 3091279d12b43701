"""Every key of a config, read from the structs: its type, default, unit and meaning, and the parts that have it.

`docs/config.md` is this list as a page; `tools/config_page.py` writes it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec import inspect

from ees_mpi.config import NoiseSettings, RunSettings
from ees_mpi.config.changes import FAMILIES
from ees_mpi.config.methods import METHODS
from ees_mpi.registry import Part

LIMITS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
TYPES = {
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.StrType: "text",
    inspect.BoolType: "true or false",
    inspect.DictType: "table",
    inspect.AnyType: "anything",
}


@dataclass(frozen=True)
class Key:
    """One key. Parts with the same key share an entry if everything else about it is the same, too."""

    key: str  # section.key
    type: str
    default: str  # as TOML; "required", or "not set"
    unit: str
    about: str
    parts: tuple[str, ...] = ()  # the names for which the key exists; empty: always
    only_with: tuple[str, str] | None = None  # another key, and the value that it must have


@dataclass(frozen=True)
class Section:
    """One section of the config, with the names that it may have."""

    name: str
    about: str
    names: Mapping[str, str]  # the members of the section's family, each with a sentence
    keys: Sequence[Key]


def sections() -> list[Section]:
    """Return all sections with all keys; imports every part."""
    methods = {name: _sentence(kind) for name, kind in METHODS.items()}
    method = Key("method", _choice(methods), '"ees"', "", "The name of the method.")
    return [
        Section("", "The method of learning; above all sections.", methods, [method]),
        _struct("run", RunSettings),
        *map(_family, FAMILIES),
        *(
            _struct(name, part, f' For method = "{method}".')
            for method, kind in METHODS.items()
            for name, part in kind.method_sections.items()
            if name not in FAMILIES
        ),
        _struct("noise", NoiseSettings),
    ]


def _struct(name: str, kind: type[Part], more: str = "") -> Section:
    return Section(name, _sentence(kind) + more, {}, list(_keys(name, kind)))


def _family(kind: str) -> Section:
    """Return the section of a family; a key that several parts share is listed once."""
    family = FAMILIES[kind]
    names = {name: _sentence(family[name]) for name in family if name != "own_loop"}  # which nobody writes in a config
    default = "required" if family.default is None else json.dumps(family.default)
    merged: dict[Key, list[str]] = {}
    for name in names:
        for key in _keys(kind, family[name]):
            merged.setdefault(key, []).append(name)
    keys = [Key(f"{kind}.name", _choice(names), default, "", f"The name of the {kind}.")]
    keys += [replace(key, parts=tuple(parts)) for key, parts in merged.items()]
    return Section(kind, ABOUT[kind], names, keys)


ABOUT = {
    "task": "Turns parameters into outcomes.",
    "population": "Draws individuals around means, and turns weights into a gradient.",
    "objective": "Turns outcomes into one weight per individual.",
    "optimizer": "Moves the means along the gradient.",
}


def _keys(section: str, kind: type[Part]) -> Iterator[Key]:
    for field in msgspec.structs.fields(kind):
        info: Any = inspect.type_info(field.type)  # with the description that `registry.key` has made
        made = field.default_factory is not msgspec.NODEFAULT
        value = field.default_factory() if made else field.default
        default = "required" if field.required else "not set" if value is None else json.dumps(value)
        about, unit = info.extra_json_schema["description"], (info.extra or {}).get("unit", "")
        needed = kind.only_with.get(field.name)
        only_with = (f"{section}.{needed[0]}", needed[1]) if needed else None
        yield Key(f"{section}.{field.encode_name}", _type(info), default, unit, about, only_with=only_with)


def _type(info: inspect.Type) -> str:
    """Return a type in words, with its limits."""
    if isinstance(info, inspect.Metadata):
        return _type(info.type)
    if isinstance(info, inspect.UnionType):
        return " or ".join(_type(member) for member in info.types if not isinstance(member, inspect.NoneType))
    if isinstance(info, inspect.LiteralType):
        return _choice(info.values)
    if isinstance(info, inspect.VarTupleType | inspect.ListType):
        return f"list of {_type(info.item_type)}"
    limits = [(sign, getattr(info, name, None)) for name, sign in LIMITS.items()]
    shown = [f"{sign} {value:g}" for sign, value in limits if value is not None and abs(value) < 1e6]
    return " ".join([TYPES[type(info)], ", ".join(shown)]).rstrip()


def _choice(names: Any) -> str:
    return " | ".join(json.dumps(name) for name in names)


def _sentence(kind: type) -> str:
    return (kind.__doc__ or "").split("\n")[0]


def text(listed: Sequence[Section], values: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Yield the keys as lines for the terminal; `values`: those of one config, by key; only its keys are shown then."""
    for section in listed:
        shown = [key for key in section.keys if values is None or _belongs(key, values)]
        if not shown:
            continue
        yield f"[{section.name}]  {section.about}" if section.name else section.about
        for key in shown:
            now, default = key.default if key.default not in ("required", "not set") else f"({key.default})", ""
            if values is not None:
                value, default = _value(key, values), f"default: {key.default}"
                now = "(not set)" if value is None else json.dumps(value)
            yield f"  {key.key} = {now}"
            yield f"      {key.about} ({'; '.join(filter(None, (key.type, key.unit, default)))})"
            if values is None and key.parts and len(key.parts) < len(section.names):
                yield f"      for {section.name}.name = {', '.join(key.parts)}"
            if values is None and key.key in (f"{section.name}.name", "method"):
                yield from (f"      {name:14} {about}" for name, about in section.names.items())
        yield ""


def _belongs(key: Key, values: Mapping[str, Any]) -> bool:
    """Return whether a config has a key: one of its sections has it, for the part that the section names."""
    section = key.key.rpartition(".")[0]
    if not section:
        return True
    if key.only_with and values.get(key.only_with[0]) != key.only_with[1]:
        return False
    used = any(name.startswith(f"{section}.") for name in values)
    return used and (not key.parts or values.get(f"{section}.name") in key.parts)


def _value(key: Key, values: Mapping[str, Any]) -> Any:
    """Return the value of a key in a config; None if it is not set."""
    if key.key == "method":
        return values.get("method", "ees")
    table = f"{key.key}."
    inside = {name.removeprefix(table): value for name, value in values.items() if name.startswith(table)}
    return values.get(key.key, inside or None)
