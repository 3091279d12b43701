"""Send a record of plain values and arrays from rank 0 to every rank."""

from collections.abc import Mapping
from typing import Any

from ees_mpi.ranks import Ranks
from ees_mpi.store import journal


def from_first(ranks: Ranks, record: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the record of rank 0 on every rank; the values of "arrays" and "state" are dicts of arrays."""
    return journal.decode(ranks.from_first(journal.pack(record) if record is not None else None))
