"""Trust: a name in a file runs only if this user has trained with this very code before, or says so for this call.

`decide` permits the settings of a config that name code (its `entries`) for a call: all of them if the user says so,
else those with which this user has trained before. Training notes them by `note_code`, on rank 0, in the user's state
folder. If a note cannot be written, the user is asked.

A note lists the files of the code with their digests: that of its module, of the packages above it, and of what it had
imported from its folder. Its name has two hashes: of the key, the name of the code and its settings; and of all this
with the files. So `decide` finds the notes on a setting, and computes the same name from the files of today, without
importing anything. If it is another name, the list tells what has changed.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ees_mpi.errors import TrustError
from ees_mpi.registry import search
from ees_mpi.registry.marks import UNKNOWN, FromFile, marks_of, permitted, without_permission

TRUST = "EES_MPI_TRUST"  # an environment variable; 1: the code that files name may run
SETTINGS = {"function": "settings", "behavior": "", "policy": "policy_settings", "env": "env_settings", "model": "xml"}
MAX_MODULES = 1000  # modules of a folder; code that imports more is not noted
PROGRAM = ("__main__", "__mp_main__")  # names of the program itself; multiprocessing gives it the second one

Facts = list[tuple[str, str, str]]  # module, file and digest


def decide(sections: dict[str, Any], trust: bool) -> None:
    """Permit in the tables of a config what may run in this call.

    trust: the user says that everything may; otherwise, what this user has trained with before
    """
    if not isinstance(trust, bool):  # a text such as "no" would be consent
        raise TrustError(f"trust: expected True or False, got {trust!r:.80}")
    if trust or os.environ.get(TRUST) == "1":
        sections.update(permitted(sections))
        return
    sections.update(without_permission(sections))
    for entry in entries(sections):
        if entry.from_file:
            if not (why := _why_not(entry)):
                entry.table.update({name: permitted(value) for name, value in entry.values.items()})
            elif isinstance(entry.text, FromFile):
                entry.table[entry.name] = FromFile(entry.text, why)


def note_code(sections: Mapping[str, Any], digests: Mapping[str, str], earlier: Iterable[Path] = ()) -> set[Path]:
    """Note the code with which the user trains, unless a file has named it; return the notes.

    digests: of modules, as imported; earlier: notes of this session, from which others take over
    """
    folder, notes = _folder(), set[Path]()
    for entry in entries(sections):
        files = _files(entry)
        beside = None if files is None or entry.from_file else _beside(entry, files)
        with suppress(OSError):  # the user will be asked
            if folder and files is not None and beside is not None:
                facts = _facts(files, beside, digests)
                note = folder / _name(entry, facts)
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                note.write_text(json.dumps(facts), encoding="utf-8")
                notes.add(note)
    for note in set(earlier) - notes:
        with suppress(OSError):
            note.unlink()
    return notes


@dataclass(frozen=True)
class Entry:
    """A setting that names code, or that a library gets: a text of a table, and the settings that belong to it."""

    key: str
    table: dict[str, Any]
    name: str  # of the text in the table; `SETTINGS` has the name of its settings

    @property
    def text(self) -> str:
        return self.table[self.name]

    @property
    def values(self) -> dict[str, Any]:
        """The text and its settings, as far as the table has them."""
        return {name: self.table[name] for name in (self.name, SETTINGS[self.name]) if name in self.table}

    @property
    def names_code(self) -> bool:
        """Whether it is a name of code, which is imported; otherwise it is noted by its value."""
        return ":" in self.text and self.name != "model"

    @property
    def module(self) -> str:
        """The module of its code."""
        return self.text.partition(":")[0]

    @property
    def from_file(self) -> bool:
        """Whether a part of it came from a file."""
        return bool(marks_of(self.values))


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
            yield Entry(f"{section}.{name}", table, name)
    parts = table.get("parts")
    for part in parts if isinstance(parts, (list, tuple)) else ():
        if isinstance(part, dict):
            yield from _entries(f"{section}.parts", part)


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


def _folder() -> Path | None:
    """Return the folder of the notes."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(home, "ees_mpi") if os.path.isabs(home) else None


def _name(entry: Entry, facts: Facts | None = None) -> str:
    """Return the name of a note on a setting and the files of its code; a pattern for all files if there are none."""
    setting = [entry.key, entry.text, entry.table.get(SETTINGS[entry.name]) or None]
    return f"{_hash(setting)[:16]}-{'*' if facts is None else _hash([*setting, facts])}"


def _hash(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()


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
    folder, python = os.path.join(os.path.dirname(files[entry.module]), ""), os.path.realpath(os.__file__)
    if folder.rstrip(os.sep).endswith((*search.INSTALLED, os.path.dirname(python))):
        return {}  # the modules there have nothing to do with each other
    real = cache(os.path.realpath)  # thousands of modules come from few folders
    found, skipped = dict[str, str](), {*PROGRAM, *files}
    for name, module in list(sys.modules.items()):
        file = search.file_of(module, real, folder) if name not in skipped else ""
        if file and not search.is_installed(file.removeprefix(folder)):
            found[file] = name if (search.files(name) or {}).get(name) == file else ""
    return found if len(found) <= MAX_MODULES else None


def _facts(files: Mapping[str, str], beside: Mapping[str, str], digests: Mapping[str, str]) -> Facts:
    """Return module, path and digest of all files of a code; raise an OSError if one of them is missing.

    digests: of modules, as imported; those of other files are computed now
    """
    facts = [(name, file, digests.get(name) or search.digest_of(file) if file else "") for name, file in files.items()]
    for file, name in sorted(beside.items()):
        now = (search.files(name) or {}).get(name, "") if name else file
        facts.append((name, now, digests.get(name) or search.digest_of(now)))
    return facts
