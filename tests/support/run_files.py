"""Comparing, changing and damaging run files."""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ees_mpi.arrays import digest
from ees_mpi.store import hdf5
from ees_mpi.store.layout import Layout
from support.program import TESTS

TIMES = re.compile("/(seconds_.*|slowest_rank|checksums)$")  # arrays that differ between equal runs


def stored(folder: Path, *names: str, place: str = "format5") -> Path:
    """Unpack files of a folder of tests/data into a folder; return the path of the first."""
    for name in names:
        (folder / name).write_bytes(gzip.decompress((TESTS / "data" / place / f"{name}.gz").read_bytes()))
    return folder / names[0]


def datasets(path: Path) -> dict[str, bytes]:
    """Every dataset of `generations` but the times and the checksums, and the final state, as bytes."""
    with h5py.File(path) as file:
        found: dict[str, bytes] = {}

        def note(name: str, item: object) -> None:
            if isinstance(item, h5py.Dataset):
                found[f"{item.dtype.str} {item.shape} {name}"] = np.asarray(item[()]).tobytes()

        for group in ("generations", "final"):
            file[group].visititems(lambda name, item, group=group: note(f"{group}/{name}", item))
        return {name: value for name, value in found.items() if not TIMES.search(name)}


def assert_same_bits(one: Path, other: Path) -> None:
    """Compare two run files, bit for bit but for the times."""
    left, right = datasets(one), datasets(other)
    assert left.keys() == right.keys()
    assert [name for name in left if left[name] != right[name]] == []


@contextmanager
def edited(path: Path) -> Iterator[h5py.File]:
    """Open a run file for changes, and renew its checksums: a file of a writer that had other numbers."""
    with h5py.File(path, "r+") as file:
        yield file
        renew(file)


def renew(file: h5py.File) -> None:
    """Renew the digest of the state, and the checksums of all arrays and attributes."""
    values, rows, final = attributes(file), file["generations"], file["final"]
    counts = attributes(final)
    listed = json.loads(counts["arrays"])
    state = {name: np.asarray(final[name]) for name, *_ in listed}
    counts["generations"] = len(rows["state_sha256"])
    if counts["generations"]:
        rows["state_sha256"][-1] = counts["after"] = digest(state).hex()
    for column, array in enumerate(Layout.of(values).arrays):
        rows["checksums"][:, column] = [zlib.crc32(row) for row in rows[array.name][:]]
    for name in state:
        del final[name]
    hdf5.write_arrays(final, state, counts)
    hdf5.write_attributes(file, values)
    for session in file["sessions"].values():
        hdf5.write_attributes(session, attributes(session))


def note_machine(file: h5py.File, **facts: str) -> None:
    """Change what the first session of a run file notes of its machine."""
    session = file["sessions/0"]
    session.attrs["machine"] = json.dumps({**json.loads(session.attrs["machine"]), **facts})


def attributes(item: h5py.Group) -> dict[str, Any]:
    """Return the attributes of an object without their checksum; texts of the test are of variable length."""
    found = {name: value for name, value in item.attrs.items() if name != hdf5.CHECKSUM}
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in found.items()}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in plain.items()}


def flipped(path: Path, name: str, row: int = 0, bit: int = 3) -> None:
    """Flip a bit of a dataset on the disk, in the chunk of a row; HDF5's checksum does not fit any more."""
    with h5py.File(path) as file:
        dataset = file[name]
        place = (row - row % dataset.chunks[0], *[0] * (len(dataset.shape) - 1))
        start = dataset.id.get_chunk_info_by_coord(place).byte_offset
        start += (row - place[0]) * (dataset.nbytes // len(dataset))
    raw = bytearray(path.read_bytes())
    raw[start + bit // 8] ^= 1 << bit % 8
    path.write_bytes(raw)
