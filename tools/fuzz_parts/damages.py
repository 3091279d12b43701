"""The damages of tools/fuzz.py: each changes the files of one case, and says what it did.

A case is a folder with the run file `run.h5`, perhaps its journal, and a folder `elsewhere` that no command may touch.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from support.run_files import renew

from ees_mpi.store import journal, records
from ees_mpi.store.records import Record

Damage = Callable[[Path, random.Random], str]
RUN, OTHER, SECRET = "run.h5", "elsewhere/other.h5", "elsewhere/secret.bin"


@contextmanager
def renewed(path: Path) -> Iterator[h5py.File]:
    """Open a file for changes, and renew its hashes if the changed file still has what they are made of."""
    with h5py.File(path, "r+") as file:
        yield file
        try:
            renew(file)
        except Exception:  # a group is no longer what it was
            return


def put(file: h5py.File, name: str, text: str) -> None:
    """Write a text attribute with the type that it has: of fixed or of variable length."""
    fixed = name in file.attrs and h5py.check_string_dtype(file.attrs.get_id(name).dtype) is not None
    length = h5py.check_string_dtype(file.attrs.get_id(name).dtype).length if fixed else None
    if length is None:
        file.attrs[name] = text
    else:
        data = text.encode("utf-8", "surrogateescape")
        file.attrs.create(name, data, dtype=h5py.string_dtype("utf-8", max(len(data), 1)))


def flip(path: Path, chance: random.Random, first: int = 0, last: int | None = None, count: int = 1) -> str:
    """Flip bits of a file, between two places."""
    raw = bytearray(path.read_bytes())
    places = [chance.randrange(first, min(last or len(raw), len(raw))) for _ in range(count)]
    for place in places:
        raw[place] ^= 1 << chance.randrange(8)
    path.write_bytes(raw)
    return f"flipped a bit of the bytes {places} of {path.name}"


def flip_one(folder: Path, chance: random.Random) -> str:
    """Flip one bit anywhere."""
    return flip(folder / RUN, chance)


def flip_many(folder: Path, chance: random.Random) -> str:
    """Flip up to 20 bits."""
    return flip(folder / RUN, chance, count=chance.randint(2, 20))


def flip_head(folder: Path, chance: random.Random) -> str:
    """Flip bits of the first bytes, which describe the file."""
    return flip(folder / RUN, chance, last=3000, count=chance.randint(1, 4))


def overwrite(folder: Path, chance: random.Random) -> str:
    """Overwrite a block with zeros, noise or another part of the file."""
    raw = bytearray((folder / RUN).read_bytes())
    size = chance.choice([8, 64, 512, 4096])
    place, other = chance.randrange(len(raw) - size), chance.randrange(len(raw) - size)
    raw[place : place + size] = chance.choice([bytes(size), chance.randbytes(size), raw[other : other + size]])
    (folder / RUN).write_bytes(raw)
    return f"overwrote {size} bytes at {place}"


def truncate(folder: Path, chance: random.Random) -> str:
    """Cut the file short, or make it longer."""
    raw = (folder / RUN).read_bytes()
    cut = chance.choice([0, 1, 7, chance.randrange(len(raw)), len(raw) - chance.randrange(1, 3000)])
    longer = chance.random() < 0.2
    (folder / RUN).write_bytes(raw + chance.randbytes(cut) if longer else raw[:cut])
    return f"made it {cut} bytes {'longer' if longer else 'long'}"


def _names(file: h5py.File) -> list[str]:
    found: list[str] = []
    file.visit(found.append)
    return found


def delete(folder: Path, chance: random.Random) -> str:
    """Delete a dataset, a group or an attribute."""
    with h5py.File(folder / RUN, "r+") as file:
        if chance.random() < 0.25:
            name = chance.choice(list(file.attrs))
            del file.attrs[name]
        else:
            name = chance.choice(_names(file))
            del file[name]
    return f"deleted {name}"


def reshape(folder: Path, chance: random.Random) -> str:
    """Replace a dataset by one of another shape or type, or change its length."""
    with h5py.File(folder / RUN, "r+") as file:
        name = chance.choice([name for name in _names(file) if isinstance(file[name], h5py.Dataset)])
        if file[name].maxshape and file[name].maxshape[0] is None and chance.random() < 0.4:
            file[name].resize(chance.choice([0, 1, 5, 7, 100]), axis=0)
            return f"resized {name}"
        del file[name]
        shape = chance.choice([(), (0,), (1,), (6,), (6, 20), (1, 4, 2), (3, 3, 3)])
        kind = chance.choice(["<f8", "<i4", "|S64", "<c16", "|u1"])
        file.create_dataset(name, data=np.zeros(shape, kind))
    return f"replaced {name} by {kind} {shape}"


def link(folder: Path, chance: random.Random) -> str:
    """Put a link, or a dataset whose data are elsewhere, in the place of a dataset or group."""
    with h5py.File(folder / RUN, "r+") as file:
        name = chance.choice(_names(file))
        shape = file[name].shape if isinstance(file[name], h5py.Dataset) else (6,)
        kind = chance.choice(["external", "soft", "dangling", "loop", "hard", "storage", "virtual", "filter", "huge"])
        if kind != "hard":
            del file[name]
        if kind == "external":
            file[name] = h5py.ExternalLink(OTHER, name)
        elif kind in ("soft", "dangling", "loop"):
            file[name] = h5py.SoftLink({"soft": "/generations/mean", "dangling": "/nothing", "loop": f"/{name}"}[kind])
        elif kind == "hard":
            file[f"{name}-again"] = file[chance.choice([name, "/"])]
        elif kind == "storage":
            size = max(1, int(np.prod(shape))) * 8
            file.create_dataset(name, shape or (1,), "<f8", external=[(SECRET, 0, size)])
        elif kind == "virtual":
            layout = h5py.VirtualLayout((6,), "<f8")
            layout[:] = h5py.VirtualSource(OTHER, "generations/entropy", (6,))
            file.create_virtual_dataset(name, layout)
        elif kind == "filter":
            file.create_dataset(name, data=np.zeros((6, 20)), compression="lzf")
        else:
            file.create_dataset(name, (10**12, 3), "<f8", chunks=(64, 3))
    return f"{kind} at {name}"


def path_link(folder: Path, chance: random.Random) -> str:
    """Put symbolic links, a FIFO or a folder where the run file, its journal, its lock or a temporary file is."""
    run = folder / RUN
    name = chance.choice(["", ".journal", ".lock", ".folding", ".journal.new", ".damaged"])
    place, kind = folder / f"{RUN}{name}", chance.choice(["secret", "other", "loop", "fifo", "folder"])
    if name == "" and kind == "other":
        shutil.move(run, folder / "real.h5")
        if (folder / "run.h5.journal").exists():
            shutil.move(folder / "run.h5.journal", folder / "real.h5.journal")
        run.symlink_to("real.h5")
        return "the run file is a link to itself under another name"
    place.unlink(missing_ok=True)
    if kind in ("secret", "other"):
        place.symlink_to({"secret": SECRET, "other": OTHER}[kind])
    elif kind == "loop":
        place.symlink_to(place.name)
    elif kind == "fifo":
        os.mkfifo(place)
    else:
        place.mkdir()
    return f"{kind} at {place.name}"


TEXTS = (
    "",
    "{",
    "null",
    "[]",
    "[1, 2]",
    '{"a": 1}',
    "\x1b[31mred",
    "x" * 100_000,
    "\udcff",
    "NaN",
    "1e999",
    "[" * 5000,
)


def attribute(folder: Path, chance: random.Random) -> str:
    """Give an attribute another value; half of the time with the right hashes, as a stranger would."""
    crafted = chance.random() < 0.5
    with renewed(folder / RUN) if crafted else h5py.File(folder / RUN, "r+") as file:
        name = chance.choice(sorted(file.attrs))
        text = chance.choice(TEXTS)
        if name == "config" and chance.random() < 0.8:
            config = file.attrs["config"]
            lines = (config.decode() if isinstance(config, bytes) else str(config)).splitlines()
            row = chance.choice([row for row, line in enumerate(lines) if "=" in line])
            key = lines[row].split("=")[0]
            values = [
                "-1",
                "0",
                "1e300",
                "nan",
                "10" * 20,
                '""',
                "[]",
                "true",
                "99999999999",
                '"..x:y"',
                "{}",
                "1" * 5000,
            ]
            lines[row] = f"{key}= {chance.choice(values)}"
            text = "\n".join(lines)
        value: Any = (
            chance.choice([text, text, -1, 2**62, np.float64("nan"), np.zeros(3)]) if name != "config" else text
        )
        try:
            if isinstance(value, str):
                put(file, name, value)
            else:
                file.attrs[name] = value
        except (OSError, RuntimeError, ValueError, UnicodeError):
            put(file, name, "short")
    return f"attribute {name}, {'with' if crafted else 'without'} the right hash: {str(value)[:60]!r}"


def craft(folder: Path, chance: random.Random) -> str:
    """Change numbers or texts and renew all hashes, as a stranger would."""
    with renewed(folder / RUN) as file:
        name = chance.choice([name for name in _names(file) if isinstance(file[name], h5py.Dataset)])
        dataset = file[name]
        if dataset.size:
            numbers = [0, -1, 1, 2**31 - 1, 127]
            if dataset.dtype.kind == "f":
                numbers += [np.nan, np.inf, -np.inf, 1e300, -1e300]
            with np.errstate(over="ignore"):
                value = np.array(chance.choice(numbers)).astype(dataset.dtype if dataset.dtype.kind in "fiu" else int)
            place = tuple(chance.randrange(size) for size in dataset.shape)
            dataset[place] = chance.choice(TEXTS[:-1]).replace("\udcff", "") if dataset.dtype.kind in "OS" else value
    return f"changed {name}, with the right hashes"


def journal_bytes(folder: Path, chance: random.Random) -> str:
    """Flip bits of the journal, cut it, overwrite a part, or append noise."""
    path = journal.path_of(folder / RUN)
    raw = path.read_bytes()
    kind = chance.choice(["flip", "flip", "cut", "zero", "append", "other"])
    if kind == "flip":
        return flip(path, chance)
    place = chance.randrange(len(raw))
    changed = {
        "cut": raw[:place],
        "zero": raw[:place] + bytes(len(raw) - place),
        "append": raw + chance.randbytes(chance.randint(1, 200)),
        "other": raw[:8] + chance.randbytes(16) + raw[24:],
    }[kind]
    path.write_bytes(changed)
    return f"{kind} at {place} of the journal"


def journal_contents(folder: Path, chance: random.Random) -> str:
    """Write a journal with the right checksums and wrong contents."""
    path = journal.path_of(folder / RUN)
    found = journal.read(folder / RUN)
    entries: list[tuple[Record, Any]] = [(each, found.state) for each in found.records]
    place = chance.randrange(len(entries))
    record, state = entries[place]
    arrays = record.arrays
    kind = chance.choice(["drop", "twice", "swap", "kind", "number", "array", "state", "before"])
    if kind == "drop":
        del entries[place]
    elif kind == "twice":
        entries.insert(place, entries[place])
    elif kind == "swap":
        entries.reverse()
    elif kind == "array":
        arrays[chance.choice(sorted(arrays))] = chance.choice([np.zeros(3), np.array("x", "S64"), np.zeros((1, 1, 1))])
    elif kind == "state":
        state = {**state, chance.choice(sorted(state)): chance.choice([np.zeros(3), np.array("x"), np.array(1e300)])}
        arrays |= {"state_sha256": np.array(records.state_digest(state).hex(), "S64")}
    if kind not in ("drop", "twice", "swap"):
        kinds = chance.choice(["session", "partial", "config", "x"]) if kind == "kind" else record.kind
        number = chance.choice([-1, 0, 7, 2**60]) if kind == "number" else record.number
        before = chance.choice([records.START, record.hash]) if kind == "before" else record.before
        entries[place] = records.make(found.run_id, kinds, number, before, *records.flat(arrays)), state
    head = path.read_bytes()[: 24 + journal.SEAL]
    ends = [(each, state if each.kind == "generation" else None) for each, state in entries]
    path.write_bytes(head + b"".join(journal.encode(*end) for end in ends))
    return f"{kind} in record {place} of the journal"
