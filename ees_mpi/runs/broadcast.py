"""Send a record of plain values and arrays from rank 0 to every rank."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ees_mpi.ranks import Ranks
from ees_mpi.store import records

TABLES = ("arrays", "state")  # the keys whose values are dicts of arrays


def from_first(ranks: Ranks, record: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the record of rank 0 on every rank; the values of "arrays" and "state" are dicts of arrays."""
    data = None
    if record is not None:
        packed = {key: records.flat(record[key]) if key in TABLES else record[key] for key in record}
        data = msgspec.msgpack.encode(packed)
    received: dict[str, Any] = msgspec.msgpack.decode(ranks.from_first(data))
    return {key: records.named(*received[key]) if key in TABLES else received[key] for key in received}
