"""Families of interchangeable parts. The `name` in a config section selects a member.

A member is a frozen msgspec struct: its fields are the keys of the section, its methods do the work. A member
is imported only if a config names it, so that a rank loads only the parts that it uses.

Some settings name code outside of this package, as "package.module:name"; `registry.plugins` loads it. Code that a
file of ees_mpi names runs only if the user says so for this call: a run file or an exported policy may be a stranger's.
Unless the user trusts it, all texts of its config are marked when `config.parse` reads it (`FromFile`), and whatever
would run the code that a marked text names calls `require` first. What the user writes has no marks.
"""

import importlib
import os
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

import msgspec

from ees_mpi.errors import ConfigError, TrustError
from ees_mpi.registry.toml import ELSEWHERE, short

Count = Annotated[int, msgspec.Meta(ge=1)]  # of something that a config has at least once
VARIABLE = "EES_MPI_TRUST"  # of the environment; 1: as --trust


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base class of all members."""

    only_with: ClassVar[Mapping[str, tuple[str, str]]] = {}  # key -> another key, and the value that it must have

    def check(self) -> None:
        """Raise a ConfigError if the part cannot work; called before the run starts."""


def key(about: str, unit: str = "", **limits: Any) -> msgspec.Meta:
    """Describe a key of the config, for the annotation of its field: a sentence, a unit, and limits such as ge=0."""
    return msgspec.Meta(description=about, extra={"unit": unit} if unit else None, **limits)


class Family(Mapping[str, Any]):
    """A registry: name of a member -> class, imported at first use; `default`: the name of a section without one."""

    def __init__(self, kind: str, members: dict[str, str], default: str | None = None):
        self.kind, self.default, self._members = kind, default, members

    def __getitem__(self, name: str) -> Any:
        if name not in self._members:
            raise ConfigError(f"{self.kind}.name: {unknown(name, self._members)}")
        return loaded(self._members[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def name_of(self, part: object) -> str:
        """Return the name under which a part's class is registered."""
        path = f"{type(part).__module__}:{type(part).__name__}"
        return next(name for name, member in self._members.items() if member == path)

    def build(self, section: Any, path: str = "") -> Any:
        """Return the part that a config section describes; errors name its keys below `path`, or its kind."""
        name = section.get("name", self.default) if isinstance(section, dict) else None
        if not isinstance(name, str):
            raise ConfigError(f"{self.kind}: expected a table with a name, one of {', '.join(self)}; got {section!r}")
        settings = {key: value for key, value in section.items() if key != "name"}
        return convert(settings, self[name], path or self.kind)

    def section(self, part: object) -> dict[str, Any]:
        """Return the config section of a part, as `build` reads it."""
        return {"name": self.name_of(part), **part_settings(part)}


def part_settings(part: object) -> dict[str, Any]:
    """Return the settings of a part as TOML can hold them; settings that are None are left out."""
    return {key: value for key, value in builtins(part).items() if value is not None}


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
        if problem.startswith("Invalid enum value"):
            expected = f"expected one of {_choices(kind, place)}, got {_at(section, place)!r:.80}"
            raise ConfigError(f"{key}: {expected}") from None
        got = "" if "got" in problem or not problem.startswith("Expected") else f", got {_at(section, place)!r:.80}"
        place = "" if problem.startswith(f"{path}.") else f"{key}: "  # a check of the part itself names the key
        raise ConfigError(f"{place}{problem[:1].lower()}{problem[1:]}{got}".replace("`", "")) from None


def _choices(kind: Any, place: str) -> str:
    """Return the values that the field at a place such as `.activation[0]` may have."""
    name = re.findall(r"\w+", place)[0]
    types = [field.type for field in msgspec.structs.fields(kind) if field.encode_name == name]
    for each in types:  # the list grows while unions, tuples and annotations are taken apart
        types += () if get_origin(each) is Literal else get_args(each)
    literals = (each for each in types if get_origin(each) is Literal)
    return ", ".join(dict.fromkeys(str(value) or '""' for each in literals for value in get_args(each)))


def _at(section: Any, place: str) -> Any:
    """Return the value at a place such as `.hidden[0]`."""
    for name, number in re.findall(r"\.(\w+)|\[(\d+)\]", place):
        section = section[name or int(number)]
    return section


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all values in nested tables, each with its whole key: section.key."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield everything in nested tables and lists that is neither, each with its key."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{key}.{name}".lstrip("."))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item, key)
    else:
        yield key, value


def unknown(name: str, known: Any) -> str:
    """Return the message that a name is unknown, with similar names."""
    names = [getattr(field, "encode_name", field) for field in known]
    import difflib

    name = short(name)
    if not names:
        return f"unknown name {name!r}; there is nothing to set here"
    near = sorted(key for key in names if key.endswith(f".{name}"))  # a key without its section
    here = ELSEWHERE.get(name, "")
    near = near or [key for key in names if key in (here, here.rpartition(".")[2])]
    words = set(name.split("-"))  # of a preset: those that have all of them
    near = near or [key for key in names if len(words) > 1 and words <= set(key.split("-"))][:3]
    near = near or difflib.get_close_matches(name, names)
    near = near or [key for key in names if len(key) > 2 and name.startswith(key)]  # env of enviroment
    near = near or difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"expected one of: {', '.join(sorted(names))}"
    return f"unknown name {name!r}; {hint}"


class FromFile(str):
    """A text that came from a file which the user has not said to trust."""


def trusted(trust: bool) -> bool:
    """Return whether the user trusts a file; `trust`: the option, whose texts, such as "no", are no consent."""
    return trust is True or os.environ.get(VARIABLE) == "1"


def require(value: Any, key: str) -> None:
    """Raise a TrustError if a text came from a file that is not trusted."""
    if isinstance(value, FromFile):
        raise refusal({key: value})


def refusal(code: Mapping[str, str]) -> TrustError:
    """Return the error that a file would run code; `code`: its names, by key."""
    # The file may have named the key, so it is escaped: a message is one line.
    named = ", ".join(f"{repr(key)[1:-1]:.200} = {str(text)!r:.80}" for key, text in code.items())
    return TrustError(
        f"the file would run or load {named}. If you trust it, use --trust (in Python: trust=True), or set {VARIABLE}=1"
    )


def builtins(part: Any) -> Any:
    """Return what msgspec makes of a struct, with the marks of its texts."""
    return msgspec.to_builtins(part, builtin_types=(FromFile,))
