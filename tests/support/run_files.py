"""Comparing run files."""

from pathlib import Path

import h5py
import numpy as np


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
