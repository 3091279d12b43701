"""The hashes of a run file: one per generation, one of each small group, one of the root attributes.

A hash is the SHA-256 of a list of named arrays. Each array adds one line of text, `NAME DTYPE SHAPE`, and its bytes in
C order. Files of format 1 have no hashes, except that of the state after each generation.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

ROW = "row_sha256"  # of a generation, without its times: the same for two runs of one config
TIMES = "seconds_sha256"  # of the times of a generation
ATTRIBUTES = "attributes_sha256"
GROUP = "sha256"  # an attribute of the groups `final`, `previous`, `partial` and `sessions`


def digest(named: Mapping[str, NDArray[Any]]) -> str:
    """Return the hash of named arrays, in the given order."""
    parts = [part for name, array in named.items() for part in (_line(name, array.dtype, array.shape), array.tobytes())]
    return hashlib.sha256(b"".join(parts)).hexdigest()


@lru_cache(maxsize=1024)  # a commit hashes the same 40 lines each time
def _line(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    return f"{name} {dtype.str} {shape}\n".encode("utf-8", "surrogateescape")


def in_state_order(named: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a state in the order of `State.arrays`, so that its digest is `state_sha256`."""

    def place(name: str) -> tuple[int, str]:
        parts = (name == "generation", "/" not in name and name != "observations", name.startswith("moments/"))
        return (*parts, name == "observations", True).index(True), name

    return {name: named[name] for name in sorted(named, key=place)}


def of_row(row: Mapping[str, NDArray[Any]], generation: int) -> dict[str, NDArray[Any]]:
    """Return the two hashes of a generation."""
    found = {}
    for own, names in zip((ROW, TIMES), _split(tuple(row)), strict=True):
        named = {"generation": np.array(generation, np.int64), **{name: row[name] for name in names}}
        found[own] = np.array(digest(named), "S64")
    return found


@lru_cache(maxsize=16)
def _split(names: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return the names of the arrays of a generation that are no times, and of its times, both sorted."""
    hashed = sorted(name for name in names if name not in (ROW, TIMES))
    return (
        [name for name in hashed if not name.startswith("seconds_")],
        [name for name in hashed if name.startswith("seconds_")],
    )


def of_attributes(attributes: Mapping[str, Any]) -> str:
    """Return the hash of the root attributes."""
    return digest({name: _plain(attributes[name]) for name in sorted(attributes) if name != ATTRIBUTES})


def datasets(group: h5py.Group) -> dict[str, NDArray[Any]]:
    """Return the datasets of a group and of its groups, by path."""
    named: dict[str, NDArray[Any]] = {}
    for name, item in group.items():
        if isinstance(item, h5py.Group):
            named |= {f"{name}/{inner}": array for inner, array in datasets(item).items()}
        else:
            named[name] = np.asarray(item[()])
    return named


def of_group(group: h5py.Group) -> str:
    """Return the hash of the datasets of a group; the hash of a state is its `state_sha256`."""
    named = datasets(group)
    return digest({name: _plain(array) for name, array in in_state_order(named).items()})


def renew(file: h5py.File, *groups: str) -> None:
    """Write the hashes of some groups and of the root attributes again."""
    for name in groups:
        file[name].attrs[GROUP] = of_group(file[name])
    file.attrs[ATTRIBUTES] = of_attributes(file.attrs)


def _plain(value: Any) -> NDArray[Any]:
    """Return a value as an array of plain bytes; texts become JSON."""
    array = np.asarray(value)
    if array.dtype.kind in "OU":
        texts = [
            each.decode("utf-8", "surrogateescape") if isinstance(each, bytes) else str(each) for each in array.flat
        ]
        return np.frombuffer(json.dumps(texts).encode(), np.uint8)
    return array
