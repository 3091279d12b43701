"""Trust: a name in a file runs only if this user has trained with this very code before, or says so for this call.

Texts that come from a run file or an exported policy are marked, and the code that a marked text names does not run.
When a config is read for a call, `decide` permits the settings that the user has trained with before, or all of them if
the user says so. A permission ends with the call: `sections`, copies and pickles of the config do not have it.

Training notes each setting that names code, on rank 0. A note lists the files of the code with their digests: that of
its module, of the packages above it, and of what it had imported from its folder. Its name has two hashes: of the key,
the name of the code and its settings; and of all this with the files. So the same name can be computed without
importing anything, and if it is another one, the list tells what has changed. If a note cannot be written, the user is
asked.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

import msgspec

from ees_mpi.errors import TrustError
from ees_mpi.registry import search

TRUST = "EES_MPI_TRUST"  # an environment variable; 1: the code that files name may run
CONSENT = "If you trust it as it is now, use --trust (or EES_MPI_TRUST=1, or trust=True); see `ees-mpi docs internals`"
UNKNOWN = "you have not trained with it as it is now and in the folder where it is now"
SETTINGS = {"function": "settings", "behavior": "", "policy": "policy_settings", "env": "env_settings", "model": "xml"}
MAX_MODULES = 1000  # modules of a folder; code that imports more is not noted
INSTALLED = ("site-packages", "dist-packages")
PROGRAM = ("__main__", "__mp_main__")  # names of the program itself; multiprocessing gives it the second one


class FromFile(str):
    """A text that came from a file; code that it names does not run, and `why` says the reason."""

    why: str = UNKNOWN

    def __new__(cls, text: str, why: str = UNKNOWN) -> Self:
        made = super().__new__(cls, text)
        made.why = why
        return made


class Permitted(FromFile):
    """A text that came from a file; the code that it names may run in this call."""

    def __reduce__(self) -> tuple[type[FromFile], tuple[str]]:
        """Return what a copy or a pickle holds: no permission, because it may be for another call."""
        return FromFile, (str(self),)

    def __reduce_ex__(self, protocol: Any) -> tuple[type[FromFile], tuple[str]]:
        return self.__reduce__()


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Return a copy of nested tables and lists with all texts changed."""
    if isinstance(value, Mapping):
        return {key: mapped(inner, change) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(item, change) for item in value)
    return change(value) if isinstance(value, str) else value


def marked(tables: dict[str, Any]) -> dict[str, Any]:
    """Return the tables of a file with all texts marked."""
    found: dict[str, Any] = mapped(tables, FromFile)
    return found


def without_permission(tables: dict[str, Any]) -> dict[str, Any]:
    """Return tables for another call: what came from a file is marked, and not permitted."""
    found: dict[str, Any] = mapped(tables, lambda text: FromFile(text) if isinstance(text, FromFile) else text)
    return found


def builtins(part: Any) -> Any:
    """Return what msgspec makes of a struct, with the marks of its texts."""
    return msgspec.to_builtins(part, builtin_types=(FromFile, Permitted))


Places = list[tuple[list[str | int], str | None]]  # keys and numbers that lead to a text, and why it may not run


def marks_of(value: Any, place: tuple[str | int, ...] = ()) -> Places:
    """Return the marks of all texts in tables, which their TOML does not have; rank 0 sends them to the others."""
    if isinstance(value, FromFile):
        return [([*place], None if isinstance(value, Permitted) else value.why)]
    several = isinstance(value, (list, tuple))
    inner = value.items() if isinstance(value, Mapping) else enumerate(value) if several else ()
    return [mark for key, item in inner for mark in marks_of(item, (*place, key))]


def with_marks(tables: dict[str, Any], marks: Places) -> dict[str, Any]:
    """Return the tables with the marks of `marks_of`; they are changed in place."""
    for (*keys, last), why in marks:
        table: Any = tables
        for key in keys:
            table = table[key]
        table[last] = Permitted(table[last]) if why is None else FromFile(table[last], why)
    return tables


def require(value: Any, key: str) -> None:
    """Raise a TrustError if a text came from a file, and what it names may not run."""
    if isinstance(value, FromFile) and not isinstance(value, Permitted):
        what = "the run file names this code" if ":" in value else "only the run file has this setting"
        place = repr(key)[1:-1]  # in one line: the file may have named it
        why = f"{what}, and it is not run without your consent, because {value.why}"
        raise TrustError(f"{place:.200} = {str(value)!r:.80}: {why}. {CONSENT}")


@dataclass(frozen=True)
class Entry:
    """A setting that names code, or that a library gets: a text of a table, and the settings that belong to it."""

    key: str
    table: dict[str, Any]
    name: str  # of the text in the table
    more: str  # the name of its settings

    @property
    def text(self) -> str:
        return str(self.table[self.name])

    @property
    def settings(self) -> Any:
        return self.table.get(self.more) or None

    @property
    def module(self) -> str:
        """The module of the code; empty if there is none."""
        return self.text.partition(":")[0] if self.names_code else ""

    @property
    def names_code(self) -> bool:
        """Whether it is a name of code, which is imported; otherwise it is noted by its value."""
        return ":" in self.text and self.name != "model"

    @property
    def from_file(self) -> bool:
        """Whether a part of it came from a file."""
        return bool(marks_of([self.table[self.name], self.settings]))

    @property
    def foreign(self) -> bool:
        """Whether a part of it came from a file, and may not run."""
        return any(why is not None for _, why in marks_of([self.table[self.name], self.settings]))

    def permit(self) -> None:
        """Let its code run in this call."""
        for name in (self.name, self.more):
            if name in self.table:
                self.table[name] = mapped(self.table[name], _permitted)


def _permitted(text: str) -> str:
    return Permitted(text) if isinstance(text, FromFile) else text


def entries(sections: Mapping[str, Any]) -> Iterator[Entry]:
    """Yield all settings of a config that name code, and those that a library gets."""
    for section, table in sections.items():
        if isinstance(table, dict):
            yield from _entries(section, table)


def _entries(section: str, table: dict[str, Any]) -> Iterator[Entry]:
    for name, more in SETTINGS.items():
        text = table.get(name)
        by_value = (name == "env" and section == "task") or (name == "model" and bool(table.get(more)))
        if isinstance(text, str) and (":" in text or by_value):
            yield Entry(f"{section}.{name}", table, name, more)
    parts = table.get("parts")
    for part in parts if isinstance(parts, (list, tuple)) else ():
        if isinstance(part, dict):
            yield from _entries(f"{section}.parts", part)


def decide(sections: dict[str, Any], trust: bool) -> None:
    """Permit in the tables of a config what may run in this call.

    trust: the user says that everything may; otherwise, what this user has trained with before
    """
    if not isinstance(trust, bool):  # a text such as "no" would be consent
        raise TrustError(f"trust: expected True or False, got {trust!r:.80}")
    everything = trust or os.environ.get(TRUST) == "1"
    sections.update(mapped(sections, _permitted) if everything else without_permission(sections))
    if everything:
        return
    for entry in entries(sections):
        if entry.foreign:
            why, text = _why_not(entry), entry.table[entry.name]
            if not why:
                entry.permit()
            elif isinstance(text, FromFile):
                entry.table[entry.name] = FromFile(text, why)


def note_code(sections: Mapping[str, Any], digests: Mapping[str, str], earlier: Iterable[Path] = ()) -> set[Path]:
    """Note the code with which the user trains, unless a file has named it; return the notes.

    digests: of modules, as imported; earlier: notes of this session, from which others take over
    """
    folder, notes = _folder(), set[Path]()
    for entry in entries(sections):
        files = _files(entry)
        if entry.from_file or folder is None or files is None:
            continue
        beside = _beside(entry, files)
        with suppress(OSError):  # the user will be asked
            if beside is not None:
                facts = _facts(files, beside, digests)
                note = folder / _name(entry, facts)
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                note.write_text(json.dumps(facts), encoding="utf-8")
                notes.add(note)
    for note in set(earlier) - notes:
        with suppress(OSError):
            note.unlink()
    return notes


def _folder() -> Path | None:
    """Return the folder of the notes."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(home, "ees_mpi") if os.path.isabs(home) else None


def _why_not(entry: Entry) -> str:
    """Return why this code may not run; empty if the user has trained with this very code and these settings."""
    folder, files, why = _folder(), _files(entry), UNKNOWN
    if files is None:
        return "Python finds no such file from here: go to its folder, or set PYTHONPATH=FOLDER"
    for note in folder.glob(_name(entry)) if folder else ():
        try:
            noted = json.loads(note.read_text(encoding="utf-8"))
            now = _facts(files, {file: name for name, file, _ in noted if name not in files}, {})
            if note.name == _name(entry, now):
                return ""
            changed = [file for (_, file, digest), (_, _, found) in zip(noted, now, strict=True) if digest != found]
            (was,) = (file for name, file, _ in noted if name == entry.module)
        except (OSError, ValueError, TypeError, AttributeError):  # a file is missing, or this is no note
            continue
        if changed and was == files[entry.module]:
            why = f"{changed[0]!r} has changed since you trained with it"
        elif not changed and was != files[entry.module]:
            why = f"it was in {os.path.dirname(was)!r} when you trained with it"
    return why


def _files(entry: Entry) -> dict[str, str] | None:
    """Return the files that its code comes from, by module; empty if it is noted by value; None: there are none."""
    if not entry.names_code:
        return {}
    if not all(word.isidentifier() for word in entry.module.split(".")):
        return None
    return search.files(entry.module)


def _beside(entry: Entry, files: Mapping[str, str]) -> dict[str, str] | None:
    """Return the other modules that are loaded from the folder of a module, by their files; None: they are too many.

    A module that Python would not find by its name has none.
    """
    if not files:
        return {}
    folder = os.path.join(os.path.dirname(files[entry.module]), "")
    if folder.rstrip(os.sep).endswith((*INSTALLED, os.path.dirname(os.path.realpath(os.__file__)))):
        return {}  # the modules there have nothing to do with each other

    real = cache(os.path.realpath)

    @cache  # thousands of modules come from few folders
    def place_below(place: str, levels: int) -> str:
        there = os.path.join(search.place_of(place, levels, real), "")
        inside = there.startswith(folder) and not {*INSTALLED} & {*there.removeprefix(folder).split(os.sep)}
        return there if inside else ""

    found: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        file = search.file_of(module, place_below) if name not in {*PROGRAM, *files} else ""
        if file:
            known = search.files(name) or {}
            found[file] = name if known.get(name) == file else ""
    return found if len(found) <= MAX_MODULES else None


def _name(entry: Entry, facts: list[list[str]] | None = None) -> str:
    """Return the name of a note on a setting and the files of its code; a pattern for all files if there are none."""
    setting = [entry.key, entry.text, entry.settings]
    return f"{_hash(setting)[:16]}-{'*' if facts is None else _hash([*setting, facts])}"


def _facts(files: Mapping[str, str], beside: Mapping[str, str], digests: Mapping[str, str]) -> list[list[str]]:
    """Return module, path and digest of all files of a code; raise an OSError if one of them is missing."""
    facts = [[name, file, _digest(name, file, digests) if file else ""] for name, file in files.items()]
    for file, name in sorted(beside.items()):
        now = (search.files(name) or {}).get(name, "") if name else file
        facts.append([name, now, _digest(name, now, digests)])
    return facts


def _digest(name: str, file: str, digests: Mapping[str, str]) -> str:
    if name in digests:
        return digests[name]
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _hash(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()
