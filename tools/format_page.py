"""Writes the list of arrays of ees_mpi/docs/format.md from that of the package: python tools/format_page.py.

The rest of the page is written by hand.
"""

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from ees_mpi.run.arrays import ARRAYS, logged_metrics
from ees_mpi.store.layout import CHECKSUMS, Array

PAGE = Path(__file__).resolve().parents[1] / "ees_mpi" / "docs" / "format.md"
BEFORE, AFTER = "know its name.\n\n", "The axes are:\n"


def page() -> str:
    """Return the whole page."""
    start, _, rest = PAGE.read_text(encoding="utf-8").partition(BEFORE)
    return "".join((start, BEFORE, *lists(), AFTER, rest.partition(AFTER)[2]))


def lists() -> Iterator[str]:
    """Yield the lists of the arrays, each with the runs that have them."""
    (every, common), *others = ARRAYS.items()
    yield listed(f"In {every}:", [*common, CHECKSUMS])
    yield listed("Metrics, of the valid individuals; a run has those that fit it:", logged_metrics())
    for condition, arrays in others:
        yield listed(f"With {condition}:", arrays)


def listed(title: str, arrays: Iterable[Array]) -> str:
    """Return a list with its title, in lines of at most 100 characters."""
    return "\n".join((title, "", *map(item, arrays), "", ""))


def item(array: Array) -> str:
    """Return the item of an array."""
    kind = "; ".join((array.type.lstrip("<|"), *filter(None, [", ".join(array.axes)])))
    text = f"- `{array.name}` ({kind}): {array.about}"
    return textwrap.fill(text, 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
