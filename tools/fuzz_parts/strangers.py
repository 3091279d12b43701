"""More damages of tools/fuzz.py: heaps of HDF5, parts of other runs, files that unpack to gigabytes, impossible states.

The hashes are renewed where a stranger would: the files say that they are whole.
"""

import random
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from fuzz_parts.damages import OTHER, RUN, put, renewed

from ees_mpi.store import journal

HEAP = b"GCOL"
JOURNAL_HEAD = 32  # bytes: the magic, the id of the run and their checksum
LONG = "x" * 1_000_000


def heap(folder: Path, chance: random.Random) -> str:
    """Damage the heap in which HDF5 keeps texts of variable length; write one if there is none."""
    path = folder / RUN
    if HEAP not in path.read_bytes():
        with h5py.File(path, "r+") as file:
            file.attrs["program"] = "ees_mpi, with a text of variable length"
    raw = bytearray(path.read_bytes())
    places = [found.start() for found in re.finditer(HEAP, raw)]
    start = chance.choice(places)
    objects = _objects(raw, start)
    kind = chance.choice(["flip", "size 0", "huge size", "no heap size", "zeros"])
    place = chance.choice(objects)
    if kind == "flip":
        raw[start + chance.randrange(512)] ^= 1 << chance.randrange(8)
    elif kind == "zeros":
        raw[place : place + chance.choice([8, 16, 64])] = bytes(chance.choice([8, 16, 64]))
    elif kind == "no heap size":
        raw[start + 8 : start + 16] = struct.pack("<Q", chance.choice([0, 8, 2**40]))
    else:
        raw[place + 8 : place + 16] = struct.pack("<Q", 0 if kind == "size 0" else 2**40)
    path.write_bytes(raw)
    return f"{kind} in the heap at {start}, object at {place}"


def _objects(raw: bytes, start: int) -> list[int]:
    """Return the places of the objects of a heap."""
    end, place, found = start + struct.unpack_from("<Q", raw, start + 8)[0], start + 16, []
    while place + 16 <= min(end, len(raw)):
        found.append(place)
        size = struct.unpack_from("<Q", raw, place + 8)[0]
        if not size:
            break
        place += 16 + -(-size // 8) * 8
    return found or [start + 16]


def zeroed(folder: Path, chance: random.Random) -> str:
    """Overwrite one block of a disk with zeros."""
    raw = bytearray((folder / RUN).read_bytes())
    size = chance.choice([512, 4096, 4096])
    place = chance.randrange(len(raw) // size) * size
    raw[place : place + size] = bytes(size)
    (folder / RUN).write_bytes(raw)
    return f"zeroed {size} bytes at {place}"


def splice(folder: Path, chance: random.Random) -> str:
    """Put parts of another run of the same config, but of another random seed, into the file or its journal."""
    ours = journal.path_of(folder / RUN)
    theirs = folder / "elsewhere/killed.h5.journal"
    kind = chance.choice(
        ["records", "journal"] if ours.exists() and chance.random() < 0.6 else ["row", "part", "state"]
    )
    if kind == "journal":
        shutil.copy(theirs, ours)
    elif kind == "records":
        ours.write_bytes(ours.read_bytes()[:JOURNAL_HEAD] + theirs.read_bytes()[JOURNAL_HEAD:])
    if kind in ("journal", "records"):
        return f"{kind} of another run"
    with h5py.File(folder / RUN, "r+") as file, h5py.File(folder / OTHER) as other:
        rows = min(len(each["generations/generation"]) for each in (file, other))
        generation = chance.randrange(rows)
        names = sorted(set(file["generations"]) & set(other["generations"]))
        if kind == "part":
            names = chance.sample(names, chance.randint(1, 3))
        if kind == "state":
            del file["final"]
            other.copy("final", file)
            names, generation = ["state_sha256"], rows - 1
        for name in names:
            dataset = file["generations"][name]
            per_row = dataset.shape[1:] == other["generations"][name].shape[1:]
            if per_row and dataset.shape[:1] == (len(file["generations/generation"]),):
                dataset[generation] = other["generations"][name][generation]
    return f"{kind} of generation {generation} of another run: {', '.join(names[:3])}"


def bomb(folder: Path, chance: random.Random) -> str:
    """Make a small file that unpacks to gigabytes."""
    kind = chance.choice(["fill text", "one text many times", "gzip twice", "rows", "many attributes"])
    path = folder / RUN
    with h5py.File(path, "r+") as file:
        if kind == "fill text":
            for name, kinds in (("machine", h5py.string_dtype()), ("start", "<f8"), ("end", "<f8")):
                del file["sessions"][name]
                fill = {"fillvalue": LONG} if name == "machine" else {}
                file["sessions"].create_dataset(name, (20_000,), kinds, **fill)
        elif kind == "one text many times":
            del file["sessions/machine"]
            texts = file["sessions"].create_dataset("machine", (3900,), h5py.string_dtype())
            texts[0], texts[1:] = 2 * LONG, "short"
        elif kind == "gzip twice":
            _packed(file["generations"], chance.choice(["fitness", "behavior", "length"]))
        elif kind == "rows":
            for dataset in file["generations"].values():
                if dataset.maxshape and dataset.maxshape[0] is None:
                    dataset.resize(10_000_000, axis=0)
        else:
            for number in range(300):
                file.attrs[f"more{number}"] = "x" * 30_000
        place = file["sessions/machine"].id.get_offset() if kind == "one text many times" else 0
    if kind == "one text many times":  # all refer to the first
        raw = bytearray(path.read_bytes())
        raw[place : place + 16 * 3900] = raw[place : place + 16] * 3900
        path.write_bytes(raw)
    return kind


def _packed(group: h5py.Group, name: str) -> None:
    """Replace a dataset by one of 400 MB of zeros, compressed twice."""
    del group[name]
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((1, 10_000_000))
    plist.set_deflate(9)
    plist.set_deflate(9)
    space = h5py.h5s.create_simple((10, 10_000_000))
    created = h5py.h5d.create(group.id, name.encode(), h5py.h5t.IEEE_F32LE, space, plist)
    rows = h5py.Dataset(created)
    for row in range(10):
        rows[row] = 0


STATES: dict[str, Callable[[h5py.File], Any]] = {
    "extra array": lambda file: file["final"].create_dataset("extra", data=np.zeros(3)),
    "mean of three axes": lambda file: _replace(file["final"], "mean", np.zeros((1, 1, 1), np.float32)),
    "compound mean": lambda file: _replace(file["final"], "mean", np.zeros(1, [("a", "<f4"), ("b", "<i4")])),
    "references": lambda file: _moment(file, np.array([file.ref] * 2, h5py.ref_dtype), h5py.ref_dtype),
    "texts": lambda file: _moment(file, np.array(["a", "b"], object), h5py.string_dtype()),
    "lists": lambda file: _moment(file, None, h5py.vlen_dtype(np.float64)),
    "partial": lambda file: _partial(file),
    "session number": lambda file: _replace(file["sessions"], "session", np.array([10**12])),
    "session fraction": lambda file: _replace(file["sessions"], "session", np.array([1.5])),
    "gradient": lambda file: file["generations/gradient_norm"].__setitem__(-1, 1e308),
    "hidden": lambda file: _config(file, 'name = "interference"', 'name = "cheetah"\nhidden = [1, 2, 3]'),
    "noise": lambda file: _config(file, "size = 5000", "size = 2000000000"),
    "population": lambda file: _config(file, "size = 20", "size = 19"),
    "optimizer": lambda file: _config(file, 'name = "adam"', 'name = "ascent"'),
}


def state(folder: Path, chance: random.Random) -> str:
    """Give a file a state or a config that do not fit together."""
    kind = chance.choice(list(STATES))
    with renewed(folder / RUN) as file:
        STATES[kind](file)
    return kind


def _replace(group: h5py.Group, name: str, data: Any, **how: Any) -> None:
    if name in group:
        del group[name]
    group.create_dataset(name, data=data, **how)


def _moment(file: h5py.File, data: Any, dtype: Any) -> None:
    """Put an array that is not numbers among the moments of the optimizer."""
    moments = file["final"].require_group("moments")
    name = next(iter(moments), "first")
    if name in moments:
        del moments[name]
    if data is None:
        moments.create_dataset(name, (2,), dtype)[0] = np.zeros(3)
    else:
        moments.create_dataset(name, data=data, dtype=dtype)


def _partial(file: h5py.File) -> None:
    """Write results of an unfinished generation that are not finite."""
    group = file.require_group("partial")
    _replace(group, "generation", np.array(len(file["generations/generation"])))
    _replace(group, "rows", np.full((3, 6), np.nan))


def _config(file: h5py.File, old: str, new: str) -> None:
    text = file.attrs["config"]
    text = text.decode() if isinstance(text, bytes) else str(text)
    put(file, "config", text.replace(old, new))
    if "noise_size" in file.attrs and "size = 2000000000" in new:
        file.attrs["noise_size"] = 2_000_000_000
