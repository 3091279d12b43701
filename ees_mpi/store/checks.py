"""Check that the parts of a run file are present, have the right shapes, and have the hashes that are in the file."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ees_mpi.errors import RunFileError
from ees_mpi.store import hashes, layout
from ees_mpi.store.journal import Entry
from ees_mpi.terminal import is_utf8

STATE = ("generation", "mean", "observations")  # every state has these
LAST_DATE = 1e11  # seconds since 1970
REPAIR = "`ees-mpi repair` returns to the newest state in the file that is whole"


def check_small(file: h5py.File, path: Path, groups: Sequence[str] = ("sessions", "partial")) -> None:
    """Check the hashes of the root attributes, of the sessions and of an interrupted generation."""
    if file.attrs.get(hashes.ATTRIBUTES) != hashes.of_attributes(file.attrs):
        raise RunFileError(f"{path} is damaged: its attributes do not have the hash that the file has for them")
    for name in groups:
        if name in file and file[name].attrs.get(hashes.GROUP) != hashes.of_group(file[name]):
            raise RunFileError(f"{path} is damaged: the group {name} does not have the hash that the file has for it")


def check_texts(file: h5py.File) -> None:
    """Raise a ValueError if an attribute that must be a text is missing, or is none."""
    for name in ("run_id", "program", "created", "config", "noise_digest", "kind", "started_from"):
        if not isinstance(file.attrs.get(name), str):
            raise ValueError(f"its attribute {name} is not a text")
    check_note(json_object(file.attrs["started_from"] or "{}"))


def check_note(note: Mapping[str, Any]) -> None:
    """Raise a ValueError if a note on the run that a file started from has values of other types than we write."""
    kinds: dict[str, type] = dict.fromkeys(("path", "run_id", "objective", "method", "engine", "state_sha256"), str)
    kinds |= dict.fromkeys(("generation", "training_steps"), int)
    wrong = [name for name, kind in kinds.items() if not isinstance(note.get(name, kind()), kind)]
    wrong += [name for name, kind in kinds.items() if kind is int and not wrong and not 0 <= note.get(name, 0) < 2**62]
    wrong += [name for name in ("path", "generation") if note and name not in note]
    if wrong:
        raise ValueError(f"its note on the run that it started from has no usable {wrong[0]}")
    if not is_utf8(json.dumps(note, ensure_ascii=False)):
        raise ValueError("its note on the run that it started from is not UTF-8")


def check_noise_table(file: h5py.File, seed: int, size: int) -> None:
    """Raise a ValueError if the attributes describe another noise table than the config."""
    if (int(file.attrs["noise_seed"]), int(file.attrs["noise_size"])) != (seed, size):
        raise ValueError("its attributes have another noise table than its config")


def check_run_id(run_id: str) -> None:
    """Raise a ValueError unless a run id is 16 bytes in hexadecimal."""
    if len(bytes.fromhex(run_id)) != 16:
        raise ValueError("its run_id is not 16 bytes")


def json_object(text: Any) -> dict[str, Any]:
    """Return the JSON object of a text."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"expected a JSON object, got {str(text)[:80]!r}")
    return found


def check_times(session: Mapping[str, Any]) -> None:
    """Raise a ValueError if the times of a session are no dates."""
    if not all(0 <= float(session[name]) < LAST_DATE for name in ("start", "end")):
        raise ValueError("a session has times that are no dates")


def check_shapes(file: h5py.File, individuals: int, path: Path) -> None:
    """Check that all arrays are present, that their axes have the same lengths, and that their types are right."""
    missing = [name for name in ("generations", "final", "sessions") if not isinstance(file.get(name), h5py.Group)]
    if missing:
        raise RunFileError(f"{path} is damaged: it has no {missing[0]}")
    arrays, sessions = dict(file["generations"]), dict(file["sessions"])  # each is opened once
    missing = [f"generations/{name}" for name in _needed(arrays) if name not in arrays]
    missing += [f"sessions/{name}" for name in ("session", *layout.SESSIONS) if name not in sessions]
    missing += [f"final/{name}" for name in STATE if name not in file["final"]]
    if missing:
        raise RunFileError(f"{path} is damaged: it has no {missing[0]}")
    rows = arrays[layout.GENERATION].shape
    lengths = {"individual": individuals}
    for name, field in layout.GENERATIONS.items():
        if (array := arrays.get(name)) is None:
            continue
        shape = array.shape
        expected = tuple(lengths.setdefault(axis, size) for axis, size in zip(field.axes, shape[1:], strict=False))
        if shape != (*rows, *expected) or len(shape) != 1 + len(field.axes) or array.dtype.str != field.dtype:
            raise RunFileError(
                f"{path} is damaged: {name} has the shape {shape} and the type {array.dtype}; "
                f"expected {(*rows, *expected)} and {field.dtype}"
            )
    counts = {sessions[name].shape for name in ("session", *layout.SESSIONS)}
    if len(counts) != 1:
        raise RunFileError(f"{path} is damaged: the arrays of its sessions have different lengths {sorted(counts)}")


def _needed(arrays: Mapping[str, Any]) -> list[str]:
    """Return the arrays that a file must have, beside those that it has."""
    more = [name for names in layout.TOGETHER if any(each in arrays for each in names) for name in names]
    return [*layout.NEEDED, *more]


def check_records(records: Sequence[Entry], file: h5py.File) -> None:
    """Raise an error if the records of a journal do not have the contents that a run file needs."""
    if not records:
        return
    arrays = {name: array for name, array in file["generations"].items() if name in layout.GENERATIONS}
    kinds = {name: (array.shape[1:], array.dtype) for name, array in arrays.items()}
    for record in records:
        if not isinstance(record["kind"], str) or not isinstance(record.get("config", ""), str):
            raise ValueError("a record has no kind, or a config that is no text")
        if record["kind"] == "session":
            number = {name: float(record[name]) for name in ("start", "first_generation", "ranks", "nodes", "session")}
            json_object(json.dumps(record["machine"]))
            check_times({**number, "end": number["start"]})
            if not all(map(np.isfinite, number.values())) or not isinstance(record["host"], str):
                raise ValueError("a session has numbers that are not finite")
        elif record["kind"] == "generation":
            _check_generation(record, kinds)
        elif record["kind"] == "partial":
            int(record["generation"]), record["arrays"]["rows"], record["arrays"]["observations"]


def _check_generation(record: Entry, kinds: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]) -> None:
    """Check a record; `kinds`: the shape and the type of each array of a generation."""
    arrays = record["arrays"]
    if not isinstance(record["generation"], int):
        raise ValueError("a generation has no number")
    for name, kind in kinds.items():
        if (arrays[name].shape, arrays[name].dtype) != kind:
            raise ValueError(f"{name} of generation {record['generation']} has another shape or type than in the file")
    state = record.get("state")
    if state is not None and "state_sha256" in kinds:
        found = hashes.digest(hashes.in_state_order(state)).encode()
        if any(name not in state for name in STATE) or arrays["state_sha256"] != found:
            raise ValueError(f"the state after generation {record['generation']} does not have its hash")


def checked_state(file: h5py.File, path: Path) -> dict[str, NDArray[Any]]:
    """Return the state in group `final`; raise a RunFileError if it does not have its hash."""
    if not sound_state(file, "final"):
        raise RunFileError(f"{path} is damaged: the state after its last generation does not have its hash. {REPAIR}")
    return hashes.datasets(file["final"])


def check_finite(mean: NDArray[Any], when: str, path: Path) -> None:
    """Raise a RunFileError unless a mean is finite; no run makes a step to one that is not."""
    if not np.isfinite(mean).all():
        raise RunFileError(f"{path} is damaged: its mean {when} is not finite")


def sound_state(file: h5py.File, group: str) -> bool:
    """Return True if a group holds a state with the right hash, and the generation before it has the same hash."""
    try:
        found = hashes.of_group(file[group])
        if file[group].attrs.get(hashes.GROUP, found) != found:
            return False
        # The one row of a sample holds the hash of its state, too.
        row = max(int(file[group]["generation"][()]), file.attrs.get("kind") == "sample") - 1
        written = file["generations"].get("state_sha256", ())
        return row < 0 or not len(written) or bool(written[row] == found.encode())
    except Exception:  # a damaged group can raise anything
        return False


def check_row(row: Mapping[str, NDArray[Any]], generation: int, path: Path) -> None:
    """Raise a RunFileError if the arrays of a generation do not have the hashes in it."""
    found = hashes.of_row(row, generation)
    wrong = [name for name in found if name not in row or row[name] != found[name]]
    if wrong:
        raise RunFileError(
            f"{path} is damaged: generation {generation} does not have the hash in it ({wrong[0]}). "
            "`ees-mpi repair` says which generations are whole"
        )


def row_of(file: h5py.File, generation: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of a generation of an HDF5 file."""
    group = file["generations"]
    return {
        name: np.asarray(group[name][generation : generation + 1][0, ...])
        for name in group
        if name in layout.GENERATIONS
    }
