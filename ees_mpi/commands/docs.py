"""`ees-mpi docs`: the pages of the documentation. They are part of the package: compute nodes have no network."""

import re
import textwrap
from functools import partial
from importlib import resources
from typing import NamedTuple

from ees_mpi.errors import ConfigError
from ees_mpi.registry import unknown

FIRST = ("first_steps", "tutorial", "config", "python", "ask_tell", "plugins", "format")
# Earlier pages, and the pages that have their text now.
MOVED = {
    **dict.fromkeys(("faults", "generation", "hangs", "trust"), "internals"),
    **dict.fromkeys(("costs", "thousand_ranks"), "scaling"),
    "questions": "first_steps or install",
    "relatives": "peers",
    "sweeps": "clusters",
}
# Code; a paragraph that begins as code, a table, a heading or a picture; any other paragraph, or an item of a list.
PARTS = re.compile(
    r"^```.*?^```$|^(?: {4}|\||#|!).*?(?=\n\n|\n```|\n?\Z)|(?P<words>^ {0,3}\S.*?(?=\n\n|\n```|\n- |\n\d+\. |\n?\Z))",
    re.MULTILINE | re.DOTALL,
)


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
    if name in MOVED:
        raise ConfigError(f"docs: the text of {name!r} is now in {MOVED[name]}: ees-mpi docs {MOVED[name].split()[0]}")
    if name not in known:
        message = unknown(topic, known)
        listed = "" if "expected one of" in message else f" The pages are: {', '.join(known)}"
        raise ConfigError(f"docs: {message}{listed}")
    return known[name]


def wrapped(text: str, width: int) -> str:
    """Return a page with its paragraphs and lists wrapped to a width; code, tables and headings stay as they are."""
    fill = partial(textwrap.fill, width=width, break_long_words=False, break_on_hyphens=False)

    def wrap(part: re.Match[str]) -> str:
        words = " ".join((part["words"] or "").split())
        return fill(words, subsequent_indent="  " if re.match(r"- |\d+\. ", words) else "") if words else part[0]

    return PARTS.sub(wrap, text)
