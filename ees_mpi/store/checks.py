"""Check that the parts of a run file are present, fit its config, and belong together."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py

from ees_mpi.config import Config
from ees_mpi.errors import RunFileError
from ees_mpi.store import chunks, hdf5, layout, records
from ees_mpi.store.records import Columns, Entry

ADVICE = "The rest can be read with open_run and h5py, and `train --from RUN.h5@G` starts from the mean of generation G"
GROUPS = ("generations", "final", "sessions")
LOST = "lost"  # in place of a state_sha256 that is damaged
TEXTS = ("run_id", "program", "created", "config", "noise_digest", "kind", "started_from", "first_state_sha256")


def attributes_of(file: h5py.File, path: Path) -> dict[str, Any]:
    """Return the root attributes of a run file; raise an error if they do not have their hash or are no texts."""
    attributes = hdf5.attributes(file)
    if attributes.get("format") == "ees_mpi adaptation":
        raise RunFileError(f"{path} is an adaptation file, made by `ees-mpi adapt`; expected a run file")
    if attributes.get("format") != layout.FORMAT:
        raise RunFileError(f"{path} is HDF5, but not of ees_mpi: expected a run file")
    for name in (*TEXTS, hdf5.SHA256):
        if not isinstance(attributes.get(name), str):
            raise ValueError(f"its attribute {name} is not a text")
    return attributes


def check_shapes(datasets: Mapping[str, Any], config: Config, path: Path) -> dict[str, int]:
    """Check that all arrays are present, and that their axes and types are right; return the lengths of the axes."""
    arrays, _, columns = groups = [hdf5.below(datasets, name) for name in GROUPS]
    missing = [name for name, group in zip(GROUPS, groups, strict=True) if not group]
    together = (*layout.TOGETHER, tuple(config.method.fields))  # a file has all or none of the arrays of each
    needed = [name for names in together if any(name in arrays for name in names) for name in names]
    needed += [*layout.NEEDED, layout.GENERATION, *(["std"] if config.population.learns_std else [])]
    missing += [f"generations/{name}" for name in needed if name not in arrays]
    missing += [f"sessions/{name}" for name in ("session", *layout.SESSIONS) if name not in columns]
    if missing:
        raise RunFileError(f"{path} is damaged: it has no {missing[0]}")
    rows = arrays[layout.GENERATION].shape
    if rows[0] * 64 > arrays["state_sha256"].id.get_storage_size():
        raise RunFileError(f"{path} is refused: it claims {rows[0]} generations that it does not have")
    lengths = layout.known_sizes(config)
    for name, field in layout.fields(config).items():
        if (array := arrays.get(name)) is None:
            continue
        shape = array.shape
        expected = tuple(lengths.setdefault(axis, size) for axis, size in zip(field.axes, shape[1:], strict=False))
        if shape != (*rows, *expected) or len(shape) != 1 + len(field.axes) or array.dtype.str != field.dtype:
            raise RunFileError(
                f"{path} is damaged: {name} has the shape {shape} and the type {array.dtype}; "
                f"expected {(*rows, *expected)} and {field.dtype}"
            )
    counts = {columns[name].shape for name in ("session", *layout.SESSIONS)}
    if len(counts) != 1:
        raise RunFileError(f"{path} is damaged: the arrays of its sessions have different lengths {sorted(counts)}")
    return lengths


def check_records(
    entries: Sequence[Entry],
    datasets: Mapping[str, Any],
    attributes: Mapping[str, Any],
    columns: Columns,
    path: Path,
) -> list[Entry]:
    """Return the generations of a journal that the run file does not have.

    Raise an error if the records do not follow the run file, or do not have the arrays of a run.
    columns: those of a generation in the file
    """
    if not entries:
        return []
    have = datasets[f"generations/{layout.GENERATION}"].shape[0]
    rows = newer(entries, have, path)
    first = min(have, *(record.generation for record in entries))
    try:
        digests = chunks.read(datasets["generations/state_sha256"], max(first - 1, 0), have).tolist()
    except ValueError:
        digests = [LOST.encode()] * (have - max(first - 1, 0))
    # The digest of the state before each generation, from `first` on.
    known = [attributes["first_state_sha256"]] * (first == 0) + [digest.decode("ascii") for digest in digests]
    for record in entries:
        place = record.generation - first
        if known[place] not in (record.before, LOST):
            raise ValueError(f"generation {record.generation} of the journal does not follow the state before it")
        if record.kind == "generation":
            if record.columns != columns:
                raise ValueError(f"generation {record.generation} has arrays of another shape or type than in the file")
            if place + 1 == len(known):
                known.append(record.after)
            elif known[place + 1] not in (record.after, LOST):
                raise ValueError(f"generation {record.generation} of the journal is another one than in the file")
    return rows


def newer(entries: Sequence[Entry], have: int, path: Path) -> list[Entry]:
    """Return the generations after the first `have` of a run file; raise an error unless they follow one by one."""
    rows: list[Entry] = []
    for record in entries:
        last = have + len(rows) - 1
        if record.generation > last + 1:
            raise RunFileError(
                f"{path} ends with generation {last}, and its journal begins with {record.generation}: they were not "
                "copied at the same moment. Copy both again, or move the journal away to continue from the file"
            )
        if record.kind == "generation" and record.generation >= have:
            if record.generation <= last:
                raise ValueError(f"generation {record.generation} of the journal is there twice")
            rows.append(record)
    return rows


def whole_state(datasets: Mapping[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state in the group `final`; raise a ValueError if it does not have its digest."""
    state = hdf5.read(hdf5.below(datasets, "final"))
    written = datasets["generations/state_sha256"]
    have = len(written)
    expected = chunks.read(written, have - 1, have)[0].decode("ascii") if have else attributes["first_state_sha256"]
    if records.state_sha256(state) != expected:
        raise ValueError("the state in its group final does not have its digest")
    return state
