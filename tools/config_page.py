"""Writes the tables of ees_mpi/docs/config.md from the structs of the config: python tools/config_page.py.

The text above the first table stays as it is.
"""

from collections.abc import Iterator
from pathlib import Path

from ees_mpi.config import keys

PAGE = Path(__file__).resolve().parents[1] / "ees_mpi" / "docs" / "config.md"
NONE = ("required", "not set")
OBVIOUS = ("true or false", "text", "number", "table")  # types that a default shows


def page() -> str:
    """Return the whole page."""
    text, _, _ = PAGE.read_text(encoding="utf-8").partition("\n## ")
    return "\n".join([text.rstrip("\n"), *tables(), ""])


def tables() -> Iterator[str]:
    """Yield the lines of all sections."""
    for section in keys.sections():
        yield from ("", f"## {f'[{section.name}]' if section.name else 'method'}", "", section.about)
        if section.names:
            (named,) = (key for key in section.keys if is_name(key, section))
            default = "required" if named.default == "required" else f"default {shown(named.default)}"
            yield from ("", f"| {named.key} ({default}) | |", "|---|---|")
            yield from (f"| `{name}` | {cell(about)} |" for name, about in section.names.items())
        if not (found := by_parts(section)):
            continue
        yield from ("", "| key | type; default | meaning |", "|---|---|---|")
        for parts, listed in found:
            if parts:
                yield f"| *for {', '.join(parts)}:* | | |"
            for key in listed:
                values = [] if key.type in OBVIOUS and key.default not in NONE else [key.type.replace(" | ", ", ")]
                unit = f" ({key.unit})" if key.unit and key.unit not in f"{key.key} {key.about}" else ""
                value = "; ".join([*values, shown(key.default)]) + unit
                yield f"| `{key.key}` | {value} | {cell(key.about)} |"


def shown(default: str) -> str:
    """Return a default for a cell."""
    return default if default in NONE else f"`{default}`"


def is_name(key: keys.Key, section: keys.Section) -> bool:
    """Return whether a key names the part, which the table above the keys explains."""
    return key.key in ("method", f"{section.name}.name")


def by_parts(section: keys.Section) -> list[tuple[tuple[str, ...], list[keys.Key]]]:
    """Return the keys of a section by the parts that have them; those of all parts have no names."""
    found: dict[tuple[str, ...], list[keys.Key]] = {}
    for key in section.keys:
        if is_name(key, section):
            continue
        every = not key.parts or len(key.parts) == len(section.names)
        found.setdefault(() if every else tuple(key.parts), []).append(key)
    return list(found.items())


def cell(words: str) -> str:
    """Return words for a cell of a table."""
    return words.replace("|", r"\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
