"""`ees-mpi docs`: the pages of the documentation. They are part of the package: compute nodes have no network."""

import re
from importlib import resources
from typing import NamedTuple

from ees_mpi.errors import ConfigError
from ees_mpi.registry import unknown

FIRST = ("first_steps", "tutorial", "config", "python", "ask_tell", "plugins", "format")


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
        message = unknown(topic, known)
        listed = "" if "expected one of" in message else f" The pages are: {', '.join(known)}"
        raise ConfigError(f"docs: {message}{listed}")
    return known[name]
