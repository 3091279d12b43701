"""Keys of earlier versions that this one does not have.

A file that an earlier version wrote is read without them. In a config of the user they are an error.
"""

from typing import Any

from ees_mpi.errors import ConfigError

GONE = {  # section.key: a sentence for the user
    "run.portable": "it is gone: leave it out. If the CPUs of the ranks differ, the error prints the lines to export "
    "that make them compute the same bits",
}


def drop(sections: dict[str, Any]) -> None:
    """Remove the keys that are gone from the tables of a file that an earlier version wrote."""
    for key in GONE:
        section, _, name = key.partition(".")
        if isinstance(sections.get(section), dict):
            sections[section].pop(name, None)


def refuse(sections: dict[str, Any]) -> None:
    """Raise a ConfigError if the tables have a key that is gone."""
    for key, advice in GONE.items():
        section, _, name = key.partition(".")
        if isinstance(sections.get(section), dict) and name in sections[section]:
            raise ConfigError(f"{key} = {sections[section][name]!r}: {advice}")
