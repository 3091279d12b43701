"""Keys and values of earlier versions that this one does not have.

A file that an earlier version wrote is read without them. In a config of the user they are an error.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ees_mpi.errors import ConfigError


@dataclass(frozen=True)
class Gone:
    """A key that is gone, or one value of it; `advice`: a sentence for the user."""

    key: str  # section.key
    advice: str
    value: Any = None  # None: every value is gone
    instead: Any = None  # the value with which a file is read; None: none


GONE = (
    Gone(
        "run.portable",
        "it is gone: leave it out. If the CPUs of the ranks differ, the error prints the lines to export that make "
        "them compute the same bits",
    ),
)


def drop(sections: dict[str, Any]) -> None:
    """Remove everything that is gone from the tables of a file that an earlier version wrote."""
    for gone, section, name in _found(sections):
        if gone.instead is None:
            del section[name]
        else:
            section[name] = gone.instead


def refuse(sections: dict[str, Any]) -> None:
    """Raise a ConfigError if the tables have something that is gone."""
    for gone, section, name in _found(sections):
        raise ConfigError(f"{gone.key} = {section[name]!r}: {gone.advice}")


def _found(sections: dict[str, Any]) -> Iterator[tuple[Gone, dict[str, Any], str]]:
    for gone in GONE:
        place, _, name = gone.key.partition(".")
        section = sections.get(place)
        if isinstance(section, dict) and name in section and gone.value in (None, section[name]):
            yield gone, section, name
