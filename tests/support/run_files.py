"""Comparing, changing and damaging run files."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np

from ees_mpi.store import hdf5, records
from support.program import TESTS


def stored(folder: Path, *names: str, place: str = "format4") -> Path:
    """Unpack files of a folder of tests/data into a folder; return the path of the first."""
    for name in names:
        (folder / name).write_bytes(gzip.decompress((TESTS / "data" / place / f"{name}.gz").read_bytes()))
    return folder / names[0]


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
    """Open a run file for changes, and renew its digests: a file of a writer that had other numbers."""
    with h5py.File(path, "r+") as file:
        yield file
        renew(file)


def renew(file: h5py.File) -> None:
    """Renew the digest of the state and that of the attributes, whose texts get a fixed length."""
    values = {name: hdf5.text(value) for name, value in file.attrs.items() if name != hdf5.SHA256}
    final, rows = file["final"], file["generations/state_sha256"]
    digest = records.state_sha256(hdf5.read({name: final[name] for name in hdf5._names(final)}))
    if len(rows):
        rows[-1] = digest
    else:
        values["first_state_sha256"] = digest
    hdf5.put_root(file, values)


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
