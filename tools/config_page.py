"""Writes the lists of ees_mpi/docs/config.md from the structs of the config: python tools/config_page.py.

The text above the first section stays as it is.
"""

import textwrap
from collections.abc import Iterator
from pathlib import Path

from ees_mpi.config import keys

PAGE = Path(__file__).resolve().parents[1] / "ees_mpi" / "docs" / "config.md"
NONE = ("required", "not set")
OBVIOUS = ("true or false", "text", "number", "table")  # types that a default shows


def page() -> str:
    """Return the whole page."""
    text, _, _ = PAGE.read_text(encoding="utf-8").partition("\n## ")
    return "\n".join([text.rstrip("\n"), *sections(), ""])


def sections() -> Iterator[str]:
    """Yield the lines of all sections: lists, which a phone shows without scrolling sideways."""
    for section in keys.sections():
        yield from ("", f"## {f'[{section.name}]' if section.name else 'method'}", "", section.about)
        if section.names:
            (named,) = (key for key in section.keys if is_name(key, section))
            yield from ("", f"`{named.key}` ({default(named)}) is one of these:", "")
            yield from (item(f"`{name}`", about) for name, about in section.names.items())
        for parts, listed in by_parts(section):
            if parts:
                yield from ("", folded(f"Keys for {', '.join(f'`{part}`' for part in parts)}:"))
            yield ""
            for key in listed:
                values = [] if key.type in OBVIOUS and key.default not in NONE else [key.type.replace(" | ", ", ")]
                unit = f" {key.unit}" if key.unit and key.unit not in f"{key.key} {key.about}" else ""
                yield item(f"`{key.key}` ({'; '.join([*values, default(key) + unit])})", key.about)


def default(key: keys.Key) -> str:
    """Return what a key has if nobody sets it."""
    return key.default if key.default in NONE else f"default `{key.default}`"


def item(name: str, about: str) -> str:
    """Return an item of a list."""
    return folded(f"- {name}: {about}")


def folded(text: str) -> str:
    """Return a text in lines of at most 100 characters; those after the first are indented as in a list."""
    return textwrap.fill(text, 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def is_name(key: keys.Key, section: keys.Section) -> bool:
    """Return whether a key names the part, which the list above the keys explains."""
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


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
