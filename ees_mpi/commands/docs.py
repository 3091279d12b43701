"""`ees-mpi docs`: the pages of the documentation. They are part of the package: compute nodes have no network."""

import re
from importlib import resources

from ees_mpi.errors import ConfigError
from ees_mpi.registry import unknown

FIRST = ("first_steps", "tutorial", "config", "python", "ask_tell", "plugins", "format")


def pages() -> dict[str, str]:
    """Return the text of all pages by topic: those for beginners first, then the others by name."""
    found = {}
    for file in resources.files("ees_mpi").joinpath("docs").iterdir():
        if file.name.endswith(".md"):
            text = file.read_text(encoding="utf-8")
            found[file.name.removesuffix(".md")] = re.sub(r"^<!--.*-->\n", "", text, flags=re.MULTILINE)  # of scripts
    order = {topic: place for place, topic in enumerate(FIRST)}
    return {topic: found[topic] for topic in sorted(found, key=lambda topic: (order.get(topic, len(order)), topic))}


def page(topic: str) -> str:
    """Return the page of a topic; raise a ConfigError with similar topics if there is none."""
    known, name = pages(), topic.lower().removesuffix(".md").replace("-", "_")
    if name not in known:
        message = unknown(topic, known)
        listed = "" if "expected one of" in message else f" The pages are: {', '.join(known)}"
        raise ConfigError(f"docs: {message}{listed}")
    return known[name]
