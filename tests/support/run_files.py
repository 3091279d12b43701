"""Comparing run files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np

from ees_mpi.store import checks, hashes


def datasets(path: Path) -> dict[str, bytes]:
    """Every dataset of `generations` but the times, and the final state, as bytes."""
    with h5py.File(path) as file:
        found: dict[str, bytes] = {}

        def note(name: str, item: object) -> None:
            if isinstance(item, h5py.Dataset):
                found[f"{item.dtype.str} {item.shape} {name}"] = np.asarray(item[()]).tobytes()

        for group in ("generations", "final"):
            file[group].visititems(lambda name, item, group=group: note(f"{group}/{name}", item))
        return {name: value for name, value in found.items() if "/seconds_" not in name}


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
    group = file["generations"]
    rows = len(group["generation"])
    if rows and file["final/generation"][()] == rows:
        group["state_sha256"][-1] = hashes.of_group(file["final"])
    for generation in range(rows):
        for name, value in hashes.of_row(checks.row_of(file, generation), generation).items():
            if name in group:
                group[name][generation] = value
    hashes.renew(file, *(name for name in ("final", "previous", "partial", "sessions") if name in file))
