"""Comparing run files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ees_mpi.store import chain, checks, format2, layout, records, sessions, texts


def datasets(path: Path) -> dict[str, bytes]:
    """Every dataset of `generations` but the times and the chain, and the final state, as bytes."""
    with h5py.File(path) as file:
        found: dict[str, bytes] = {}

        def note(name: str, item: object) -> None:
            if isinstance(item, h5py.Dataset):
                found[f"{item.dtype.str} {item.shape} {name}"] = np.asarray(item[()]).tobytes()

        for group in ("generations", "final"):
            file[group].visititems(lambda name, item, group=group: note(f"{group}/{name}", item))
        own = ("/seconds_", "/record_sha256", "/before_sha256")  # of one run, not of its config
        return {name: value for name, value in found.items() if not any(each in name for each in own)}


def assert_same_bits(one: Path, other: Path) -> None:
    """Compare two run files, bit for bit but for the times."""
    left, right = datasets(one), datasets(other)
    assert left.keys() == right.keys()
    assert [name for name in left if left[name] != right[name]] == []


@contextmanager
def edited(path: Path) -> Iterator[h5py.File]:
    """Open a run file for changes, and renew its hashes: a file of a writer that had other numbers."""
    with h5py.File(path, "r+") as file:
        yield file
        renew(file)


def renew(file: h5py.File) -> None:
    """Renew all hashes of a file, those of its state included."""
    state = texts.datasets(file["final"])
    generation = int(state["generation"])
    digest = records.state_digest(state).hex()
    if 0 < generation <= len(file["generations/generation"]):
        file["generations/state_sha256"][generation - 1] = digest
    elif not generation and "first_state_sha256" in file.attrs:
        texts.put(file, {"first_state_sha256": digest})
    if "record_sha256" not in file["generations"]:
        _renew_format2(file)
        return
    attributes, group = texts.attributes(file), file["generations"]
    run_id, rows = str(attributes["run_id"]), group[layout.GENERATION].shape[0]
    last, writers = records.START, _sessions(file)
    for kind, number in chain.order([session["first_generation"] for session in writers], rows):
        if kind == "session":
            record = sessions.record_of(run_id, number, last, writers[number])
        else:
            record = records.make(run_id, kind, number, last, *records.flat(checks.row_of(file, number)))
        place = file[f"{kind}s"]
        place[chain.HASH][number], place[chain.BEFORE][number] = record.hash.hex(), record.before.hex()
        last = record.hash
    texts.put(file, {chain.ATTRIBUTES: chain.of_attributes(attributes)})


def _renew_format2(file: h5py.File) -> None:
    group = file["generations"]
    for generation in range(group[layout.GENERATION].shape[0]):
        for name, value in format2.of_row(checks.row_of(file, generation), generation).items():
            group[name][generation] = value
    format2.renew(file, *(name for name in ("final", "previous", "partial", "sessions") if name in file))


def _sessions(file: h5py.File) -> list[dict[str, Any]]:
    columns = {name: file["sessions"][name][:].tolist() for name in sessions.HASHED}
    return [dict(zip(columns, map(texts.text, row), strict=True)) for row in zip(*columns.values(), strict=True)]
