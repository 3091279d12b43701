"""Families of interchangeable parts. The `name` in a config section selects a member.

A member is a frozen msgspec struct: its fields are the keys of the section, its methods do the work. A member
is imported only if a config names it, so that a rank loads only the parts that it uses.
"""

import difflib
import importlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ees_mpi.errors import ConfigError


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base class of all members."""

    def check(self) -> None:
        """Raise a ConfigError if the part cannot work; called before the run starts."""


class Family(Mapping[str, type[Part]]):
    """A registry: name of a member -> class, imported at first use."""

    def __init__(self, kind: str, members: dict[str, str]):
        self.kind = kind
        self._members = members

    def __getitem__(self, name: str) -> type[Part]:
        if name not in self._members:
            raise ConfigError(f"{self.kind}.name: {unknown(name, self._members)}")
        member: type[Part] = loaded(self._members[name])
        return member

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def name_of(self, part: object) -> str:
        """Return the name under which a part's class is registered."""
        path = f"{type(part).__module__}:{type(part).__name__}"
        return next(name for name, member in self._members.items() if member == path)

    def build(self, section: Any) -> Any:
        """Return the part that a config section describes."""
        if not isinstance(section, dict) or not isinstance(section.get("name"), str):
            raise ConfigError(f"{self.kind}: expected a table with a name, one of {', '.join(self)}; got {section!r}")
        settings = {key: value for key, value in section.items() if key != "name"}
        return convert(settings, self[section["name"]], self.kind)

    def section(self, part: object) -> dict[str, Any]:
        """Return the config section of a part, as `build` reads it."""
        return {"name": self.name_of(part), **plain(part)}


def plain(part: object) -> dict[str, Any]:
    """Return the settings of a part as TOML can hold them; settings that are None are left out."""
    return {key: value for key, value in msgspec.to_builtins(part).items() if value is not None}


def loaded(path: str) -> Any:
    """Import an object of this package, given as "module:name"."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def convert(section: Any, kind: Any, path: str) -> Any:
    """Turn a plain dict into a typed struct; raise an error that names the wrong key and the expected type."""
    try:
        return msgspec.convert(section, kind)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$")
        key = path + place.rstrip("`").replace("[...]", "")
        if problem.startswith("Object contains unknown field"):
            wrong = problem.split("`")[1]
            raise ConfigError(f"{key}.{wrong}: {unknown(wrong, msgspec.structs.fields(kind))}") from None
        if problem.startswith("Object missing required field"):
            raise ConfigError(f"{key}.{problem.split('`')[1]}: is required, and not set") from None
        raise ConfigError(f"{key}: {problem[:1].lower()}{problem[1:]}".replace("`", "")) from None


def imported(path: str, key: str) -> Any:
    """Import `package.module:name`; the module may be in the current folder."""
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise ConfigError(f"{key}: expected package.module:name, got {path!r}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{key}: cannot import {path!r}: {error}") from None


def unknown(name: str, known: Any) -> str:
    """Return the message that a name is unknown, with similar names."""
    names = [getattr(field, "name", field) for field in known]
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"expected one of: {', '.join(sorted(names))}"
    return f"unknown name {name!r}; {hint}"


@dataclass(frozen=True)
class Hooks:
    """Where the parts of a method are, as "module:name". They are imported when they are used."""

    job: str  # a class with `open(config, ranks)` that returns a `training.Job`
    repeat: str  # a function (run) that returns a `commands.verify.Repeater`
    adapt: str  # a function (ranks, request) that returns a `commands.adapt.Adapted`
    costs: str  # a function (config) that returns `commands.plan.Costs`
