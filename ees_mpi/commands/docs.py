"""`ees-mpi docs`: the pages of the documentation. They are part of the package: compute nodes have no network."""

import re
import textwrap
from importlib import resources
from typing import NamedTuple

from ees_mpi.errors import ConfigError
from ees_mpi.registry import unknown

FIRST = (
    "first_steps",
    "tutorial",
    "generation",
    "config",
    "python",
    "ask_tell",
    "plugins",
    "sweeps",
    "format",
)  # in this order


class Page(NamedTuple):
    """One page."""

    topic: str
    title: str
    text: str


def pages() -> list[Page]:
    """Return all pages: those for beginners first, then the others by name."""
    found = []
    for file in resources.files("ees_mpi").joinpath("docs").iterdir():
        if file.name.endswith(".md"):
            text = re.sub(r"^<!--.*-->\n", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)  # marks of scripts
            found.append(Page(file.name.removesuffix(".md"), text.partition("\n")[0].lstrip("# "), text))
    order = {topic: place for place, topic in enumerate(FIRST)}
    return sorted(found, key=lambda page: (order.get(page.topic, len(order)), page.topic))


def page(topic: str) -> Page:
    """Return the page of a topic; raise a ConfigError with similar topics if there is none."""
    known = {each.topic: each for each in pages()}
    name = topic.lower().removesuffix(".md").replace("-", "_")
    if name not in known:
        raise ConfigError(f"docs: {unknown(topic, known)}")
    return known[name]


def wrapped(text: str, width: int) -> str:
    """Return a page with its paragraphs and lists wrapped to a width; code, tables and headings stay as they are."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _wrap(part, width) for part in parts)


def _wrap(text: str, width: int) -> str:
    paragraphs = text.split("\n\n")
    return "\n\n".join(each if re.match(r"\n*(    |\||#|!|$)", each) else _fill(each, width) for each in paragraphs)


def _fill(paragraph: str, width: int) -> str:
    """Fill a paragraph; a line that begins an item of a list begins a new line."""
    ends = re.match(r"(\n*)(.*?)(\n*)$", paragraph, re.DOTALL)
    before, inside, after = ends.groups() if ends else ("", paragraph, "")
    items = re.split(r"\n(?=(?:- |\d+\. ))", inside)
    filled = []
    for item in items:
        indent = "  " if re.match(r"- |\d+\. ", item) else ""
        words = " ".join(item.split())
        filled.append(
            textwrap.fill(words, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        )
    return before + "\n".join(filled) + after
