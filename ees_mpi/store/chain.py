"""The chain of hashes in a run file: each session and each generation has its own hash, and that of the one before.

A hash contains the id of the run, so that rows of another run do not pass; and the hash before, so that rows of a copy
that went another way do not pass. A damaged row is found by its own hash, and does not spoil those after it.
Files of format 2 have no chain; `format2` computes their hashes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ees_mpi.outcomes import Arrays
from ees_mpi.store import format2, layout, records, texts
from ees_mpi.store.records import START, Columns, Record

ATTRIBUTES = format2.ATTRIBUTES
HASH, BEFORE = layout.HASHES[3]


def version_of(attributes: Mapping[str, Any]) -> int:
    """Return the version of the format."""
    return int(attributes["format_version"])


def of_attributes(attributes: Mapping[str, Any]) -> str:
    """Return the hash of the root attributes."""
    if version_of(attributes) == 2:
        return format2.of_attributes(attributes)
    values = records.plain({name: value for name, value in attributes.items() if name != ATTRIBUTES})
    return records.digest(str(attributes["run_id"]), "attributes", 0, START, *records.flat(values)).hex()


def hashes_of(row: Record, version: int) -> dict[str, str]:
    """Return the hashes of a generation, as a file of this version has them."""
    return format2.of_row(row.arrays, row.number) if version == 2 else {HASH: row.hash.hex(), BEFORE: row.before.hex()}


def has_hash(
    hashes: Sequence[bytes], run_id: str, version: int, generation: int, columns: Columns, data: bytes
) -> bool:
    """Return True if a generation has its hash; `hashes`: those in the file; `data`: the bytes of its arrays."""
    stored = [text.decode("ascii", "replace") for text in hashes]
    if version == 2:
        return stored == list(format2.of_row(records.named(columns, data), generation).values())
    if len(stored[1]) != 64:
        return False
    before = bytes.fromhex(stored[1])
    return bool(stored[0] == records.digest(run_id, "generation", generation, before, columns, data).hex())


def broken_links(file: h5py.File) -> Iterator[tuple[int, int]]:
    """Yield the generations before which the chain is broken, each with the generation before the break; -1: none.

    A session that does not follow counts as its first generation.
    """
    firsts = file["sessions/first_generation"][:].tolist()
    hashes = {
        kind: [file[f"{kind}s"][name][:].tolist() for name in (HASH, BEFORE)] for kind in ("generation", "session")
    }
    last, place = START.hex().encode(), -1
    for kind, number in order(firsts, len(hashes["generation"][0])):
        own, before = (column[number] for column in hashes[kind])
        if before != last:
            yield number if kind == "generation" else firsts[number], place
        last, place = own, number if kind == "generation" else -1


def order(firsts: Sequence[int], generations: int) -> Iterator[tuple[str, int]]:
    """Yield the sessions and generations of a run in the order of their commits."""
    done = 0
    for number, first in enumerate(firsts):
        yield from (("generation", generation) for generation in range(done, min(first, generations)))
        done = max(done, min(first, generations))
        yield "session", number
    yield from (("generation", generation) for generation in range(done, generations))


def last_hash(file: h5py.File, version: int) -> bytes:
    """Return the hash of the last record of a file; that before the first one if there is none, and in format 2."""
    rows = file["generations"][layout.GENERATION].shape[0]
    firsts = file["sessions/first_generation"]
    if version == 2 or not rows + firsts.shape[0]:
        return START
    group = "sessions" if firsts.shape[0] and firsts[-1] >= rows else "generations"
    return bytes.fromhex(file[group][HASH][-1].decode())


def put_partial(file: h5py.File, record: Record, version: int) -> None:
    """Write the outcomes of an interrupted generation."""
    file["partial/generation"] = record.number
    for name, array in record.arrays.items():
        file[f"partial/{name}"] = array
    if version > 2:
        texts.put(file["partial"], {HASH: record.hash.hex(), BEFORE: record.before.hex()})


def partial_is_whole(file: h5py.File, run_id: str, version: int) -> bool:
    """Return True if the outcomes of an interrupted generation have their hash, or if there are none."""
    if "partial" not in file:
        return True
    if version == 2:
        return format2.has_group_hash(file, "partial")
    arrays, noted = texts.datasets(file["partial"]), texts.attributes(file["partial"])
    number = int(arrays.pop("generation"))
    columns, data = records.flat(dict(sorted(arrays.items())))
    before = bytes.fromhex(str(noted[BEFORE]))
    return bool(records.digest(run_id, "partial", number, before, columns, data).hex() == noted[HASH])


def rows_of(columns: Columns, rows: Sequence[Record]) -> NDArray[Any]:
    """Return generations as one structured array."""
    kind = np.dtype([(name, dtype, shape) for name, dtype, shape in columns])
    return np.frombuffer(b"".join(row.data for row in rows), kind)


def state_hash(file: h5py.File, state: Arrays, attributes: Mapping[str, Any]) -> bool:
    """Return True if a state has the digest that the generation before it has, or that the file has for the first."""
    written, generation = file["generations/state_sha256"], int(state["generation"])
    if version_of(attributes) == 2:  # the one row of a sample holds the hash of its state, too
        generation = max(generation, attributes.get("kind") == "sample")
        expected = written[generation - 1] if generation and written.shape[0] else records.state_digest(state).hex()
    else:
        expected = written[generation - 1] if generation else attributes["first_state_sha256"]
    return bool(texts.text(expected) == records.state_digest(state).hex())
