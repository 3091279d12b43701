"""Writes the tables of ees_mpi/docs/config.md from the structs of the config: python tools/config_page.py.

The text above the first table stays as it is.
"""

from collections.abc import Iterator
from pathlib import Path

from ees_mpi.config import keys

PAGE = Path(__file__).resolve().parents[1] / "ees_mpi" / "docs" / "config.md"


def page() -> str:
    """Return the whole page."""
    text, _, _ = PAGE.read_text(encoding="utf-8").partition("\n## ")
    return "\n".join([text.rstrip("\n"), *tables(), ""])


def tables() -> Iterator[str]:
    """Yield the lines of all sections."""
    for section in keys.sections():
        yield from ("", f"## {f'[{section.name}]' if section.name else 'method'}", "", section.about)
        if section.names:
            yield from ("", f"| {f'{section.name}.name' if section.name else 'method'} | |", "|---|---|")
            yield from (f"| `{name}` | {cell(about)} |" for name, about in section.names.items())
        yield from ("", "| key | type | default | meaning |", "|---|---|---|---|")
        for parts, listed in by_parts(section):
            if parts:
                yield f"| *for {', '.join(parts)}:* | | | |"
            for key in listed:
                default = key.default if key.default in ("required", "not set") else f"`{key.default}`"
                default += f" ({key.unit})" if key.unit else ""
                named = key.key in ("method", f"{section.name}.name")
                choices = "see above" if named else key.type.replace(" | ", ", ")
                yield f"| `{key.key}` | {choices} | {default} | {cell(key.about)} |"


def by_parts(section: keys.Section) -> list[tuple[tuple[str, ...], list[keys.Key]]]:
    """Return the keys of a section by the parts that have them; those of all parts have no names."""
    found: dict[tuple[str, ...], list[keys.Key]] = {}
    for key in section.keys:
        every = not key.parts or len(key.parts) == len(section.names)
        found.setdefault(() if every else tuple(key.parts), []).append(key)
    return list(found.items())


def cell(words: str) -> str:
    """Return words for a cell of a table."""
    return words.replace("|", r"\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
