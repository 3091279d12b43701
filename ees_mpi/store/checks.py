"""Check that the parts of a run file are present, fit the config, and have the hashes that are in the file."""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ees_mpi.config import Config
from ees_mpi.errors import RunFileError
from ees_mpi.store import chain, format2, layout, records, sessions, texts
from ees_mpi.store.records import Columns, Record
from ees_mpi.store.safety import damage_reported

REPAIR = "`ees-mpi repair` returns to the newest state in the file that is whole"
TEXTS = ("run_id", "program", "created", "config", "noise_digest", "kind", "started_from")


def attributes_of(file: h5py.File, path: Path) -> dict[str, Any]:
    """Return the root attributes of a run file; raise an error if they do not have their hash or are no texts."""
    attributes = texts.attributes(file)
    _check_format(attributes, path)
    if attributes.get(chain.ATTRIBUTES) != chain.of_attributes(attributes):
        raise RunFileError(f"{path} is damaged: its attributes do not have the hash that the file has for them")
    for name in TEXTS:
        if not isinstance(attributes.get(name), str):
            raise ValueError(f"its attribute {name} is not a text")
    if len(bytes.fromhex(attributes["run_id"])) != 16:
        raise ValueError("its run_id is not 16 bytes")
    note_of(attributes["started_from"] or "{}")
    return attributes


def _check_format(attributes: Mapping[str, Any], path: Path) -> None:
    """Raise a RunFileError unless a file is a run file of a known format."""
    kind, version = attributes.get("format"), attributes.get("format_version", 0)
    if kind == "ees_mpi adaptation":
        raise RunFileError(f"{path} is an adaptation file, made by `ees-mpi adapt`; expected a run file")
    if kind != layout.FORMAT or not isinstance(version, (int, np.integer)):
        raise RunFileError(f"{path} is HDF5, but not a run file of ees_mpi")
    if version not in layout.SESSIONS:
        expected = f"{layout.OLDEST} to {layout.FORMAT_VERSION}"
        cure = "Update it" if version > layout.FORMAT_VERSION else "An older version wrote the file"
        raise RunFileError(f"{path} has format {version}; this version of ees_mpi reads {expected}. {cure}")


def check_groups(file: h5py.File, attributes: Mapping[str, Any], path: Path) -> None:
    """Check the hashes of an interrupted generation, and those of the sessions of format 2."""
    version = chain.version_of(attributes)
    whole = chain.partial_is_whole(file, attributes["run_id"], version)
    if not whole or (version == 2 and not format2.has_group_hash(file, "sessions")):
        name = "sessions" if whole else "partial"
        raise RunFileError(f"{path} is damaged: the group {name} does not have the hash that the file has for it")


def note_of(text: str) -> dict[str, Any]:
    """Return the note on the run that a file started from; raise a ValueError if it has other values than we write."""
    note = json.loads(text)
    if not isinstance(note, dict):
        raise ValueError(f"expected a JSON object, got {text[:80]!r}")
    kinds: dict[str, type] = dict.fromkeys(("path", "run_id", "objective", "method", "engine", "state_sha256"), str)
    kinds |= dict.fromkeys(("generation", "training_steps"), int)
    wrong = [name for name, kind in kinds.items() if not isinstance(note.get(name, kind()), kind)]
    wrong += [name for name, kind in kinds.items() if kind is int and not wrong and not 0 <= note.get(name, 0) < 2**62]
    wrong += [name for name in ("path", "generation") if note and name not in note]
    if wrong:
        raise ValueError(f"its note on the run that it started from has no usable {wrong[0]}")
    json.dumps(note, ensure_ascii=False).encode()  # raises a ValueError if a text is not UTF-8
    return note


def check_shapes(file: h5py.File, config: Config, version: int, path: Path) -> dict[str, int]:
    """Check that all arrays are present, and that their axes and types are right; return the lengths of the axes."""
    missing = [name for name in ("generations", "final", "sessions") if not isinstance(file.get(name), h5py.Group)]
    if missing:
        raise RunFileError(f"{path} is damaged: it has no {missing[0]}")
    arrays, columns = dict(file["generations"]), dict(file["sessions"])  # each is opened once
    groups = (*layout.TOGETHER, tuple(config.method.fields))  # a file has all or none of the arrays of each group
    needed = [name for names in groups if any(name in arrays for name in names) for name in names]
    needed += [*layout.NEEDED, *layout.HASHES[version]]
    missing = [f"generations/{name}" for name in needed if name not in arrays]
    missing += [f"sessions/{name}" for name in ("session", *layout.SESSIONS[version]) if name not in columns]
    if missing:
        raise RunFileError(f"{path} is damaged: it has no {missing[0]}")
    rows = arrays[layout.GENERATION].shape
    lengths = layout.known_sizes(config)
    for name, field in (layout.fields(config) | dict.fromkeys(layout.HASHES[version], layout.HASH)).items():
        if (array := arrays.get(name)) is None:
            continue
        shape = array.shape
        expected = tuple(lengths.setdefault(axis, size) for axis, size in zip(field.axes, shape[1:], strict=False))
        if shape != (*rows, *expected) or len(shape) != 1 + len(field.axes) or array.dtype.str != field.dtype:
            raise RunFileError(
                f"{path} is damaged: {name} has the shape {shape} and the type {array.dtype}; "
                f"expected {(*rows, *expected)} and {field.dtype}"
            )
    counts = {columns[name].shape for name in ("session", *layout.SESSIONS[version])}
    if len(counts) != 1:
        raise RunFileError(f"{path} is damaged: the arrays of its sessions have different lengths {sorted(counts)}")
    return lengths


def check_records(entries: Sequence[Record], file: h5py.File, columns: Columns, version: int) -> None:
    """Raise a ValueError if the records of a journal do not have the contents that a run file needs.

    columns: those of a generation in the file
    """
    known = file["sessions/session"].shape[0]
    have = file["generations"][layout.GENERATION].shape[0]
    last = b""  # the hash of the record before; of the file before the first record that the file does not have
    for record in entries:
        if record.kind == "session":
            sessions.of_record(record)
            new = record.number == known
            if record.number > known:
                raise ValueError(f"session {record.number} does not follow session {known - 1}")
            known += new
        elif record.kind == "generation":
            new = record.number >= have
            if record.columns != columns:
                raise ValueError(f"generation {record.number} has arrays of another shape or type than in the file")
        elif record.kind in ("partial", "config"):
            continue
        else:
            raise ValueError(f"a record has the kind {record.kind[:80]!r}")
        if version > 2:
            if not new:
                follows = file[f"{record.kind}s"][chain.HASH][record.number].decode() == record.hash.hex()
            else:
                follows = record.before == (last or chain.last_hash(file, version))
            if not follows:
                raise ValueError(f"{record.kind} {record.number} does not follow the record before it")
        last = record.hash


def is_whole_state(file: h5py.File, name: str, attributes: Mapping[str, Any]) -> bool:
    """Return True if a group holds a state that has its hash."""
    try:
        if chain.version_of(attributes) == 2 and not format2.has_group_hash(file, name):
            return False
        return chain.state_hash(file, texts.datasets(file[name]), attributes)
    except Exception:  # a damaged group can raise anything
        return False


def is_whole(file: h5py.File, name: str, attributes: Mapping[str, Any], path: Path) -> bool:
    """Return True if a group holds a state that has its hash, and the generation before it has its hash."""
    try:
        with damage_reported(path):
            if not is_whole_state(file, name, attributes):
                return False
            last, version = int(file[name]["generation"][()]) - 1, chain.version_of(attributes)
            if last < 0:
                return True
            hashes = [file["generations"][name][last] for name in layout.HASHES[version]]
            return chain.has_hash(hashes, attributes["run_id"], version, last, *records.flat(row_of(file, last)))
    except RunFileError:
        return False


def row_of(file: h5py.File, generation: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of a generation of an HDF5 file, sorted by name."""
    no_arrays = {layout.GENERATION, *itertools.chain(*layout.HASHES.values())}
    return {
        name: np.asarray(array[generation : generation + 1][0, ...])
        for name, array in layout.growing(file["generations"]).items()
        if name not in no_arrays
    }
