"""Marks of texts that came from a file: code that a marked text names does not run, unless it is permitted.

A run file or an exported policy may be a stranger's. So all texts of its config are marked when it is read, and for
each call `registry.trust` decides which of them are permitted. A permission ends with the call: `Config.sections`,
copies and pickles of a config are marked, and not permitted. TOML has no marks, so rank 0 sends them beside it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Self

import msgspec

from ees_mpi.errors import TrustError

UNKNOWN = "you have not trained with it as it is now and in the folder where it is now"
CONSENT = "If you trust it as it is now, use --trust (or EES_MPI_TRUST=1, or trust=True); see `ees-mpi docs internals`"


class FromFile(str):
    """A text that came from a file; code that it names does not run, and `why` says the reason."""

    why: str

    def __new__(cls, text: str, why: str = UNKNOWN) -> Self:
        made = super().__new__(cls, text)
        made.why = why
        return made


class Permitted(FromFile):
    """A text that came from a file; the code that it names may run in this call."""

    def __reduce_ex__(self, protocol: Any) -> tuple[type[FromFile], tuple[str]]:
        """Return what a copy or a pickle holds: no permission, because it may be for another call."""
        return FromFile, (str(self),)


def require(value: Any, key: str) -> None:
    """Raise a TrustError if a text came from a file, and what it names may not run."""
    if isinstance(value, FromFile) and not isinstance(value, Permitted):
        what = "the run file names this code" if ":" in value else "only the run file has this setting"
        place = repr(key)[1:-1]  # in one line: the file may have named it
        why = f"{what}, and it is not run without your consent, because {value.why}"
        raise TrustError(f"{place:.200} = {str(value)!r:.80}: {why}. {CONSENT}")


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Return a copy of nested tables and lists with all texts changed."""
    if isinstance(value, Mapping):
        return {key: mapped(inner, change) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(item, change) for item in value)
    return change(value) if isinstance(value, str) else value


def permitted(tables: Any) -> Any:
    """Return tables for a call that may run everything in them."""
    return mapped(tables, lambda text: Permitted(text) if isinstance(text, FromFile) else text)


def without_permission(tables: dict[str, Any]) -> dict[str, Any]:
    """Return tables for another call: what came from a file is marked, and not permitted."""
    return mapped(tables, lambda text: FromFile(text) if isinstance(text, FromFile) else text)


def builtins(part: Any) -> Any:
    """Return what msgspec makes of a struct, with the marks of its texts."""
    return msgspec.to_builtins(part, builtin_types=(FromFile, Permitted))


Places = list[tuple[list[str | int], str | None]]  # keys and numbers that lead to a text; why it may not run, if so


def marks_of(value: Any, place: tuple[str | int, ...] = ()) -> Places:
    """Return the marks of all texts in tables, for other ranks."""
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
