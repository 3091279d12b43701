"""Damaged and forged files: an error or the right numbers, never other numbers, a hang or a traceback.

EES_TEST_DAMAGES=3000 tries more flipped bits, zeroed blocks and truncations.
"""

import json
import os
import random
import resource
import shutil
import signal
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from support.small_store import SIZES, append, made, row, state

from ees_mpi.errors import RunFileError
from ees_mpi.store import hdf5, journal, writer
from ees_mpi.store.reader import Reader, read_arrays

DAMAGES = int(os.environ.get("EES_TEST_DAMAGES", "60"))
SECONDS = 60  # a case takes a hundredth of a second; a hang is ended
Contents = dict[str, Any]
KIND = "ees_mpi small"


def write(folder: Path, kind: str) -> Path:
    """Write a file of a kind into an empty folder."""
    folder.mkdir()
    path = folder / "run.h5"
    if kind == "small":
        writer.write_arrays(path, KIND, {"note": "a text"}, state(3))
    elif kind == "long":
        made(path, 40, 20)  # more than one chunk
    else:
        made(path, 6, 3, closed=kind == "closed")
    return path


def contents(path: Path) -> Contents:
    """Return everything that can be read of a file; what cannot be read is left out."""
    found: Contents = {}

    def note(name: str, read: Callable[[], Any]) -> None:
        try:
            found[name] = read()
        except RunFileError:
            return

    def of_arrays(arrays: dict[str, Any]) -> dict[str, bytes]:
        return {name: each.tobytes() for name, each in arrays.items()}

    if path.parent.name == "small":
        note("small", lambda: [str(read_arrays(path, KIND)[0]), of_arrays(read_arrays(path, KIND)[1])])
        return found
    try:
        file = Reader(path)
    except RunFileError:
        return {}
    with file:
        found["attributes"], found["generations"] = str(file.attributes), file.generations
        note("sessions", lambda: str(file.sessions()))
        note("state", lambda: of_arrays(file.state_arrays()))
        for name in file:
            note(name, lambda name=name: np.asarray(file[name]))
            note(f"{name}[-1]", lambda name=name: file[name][-1].tobytes())
    return found


def same(one: Any, other: Any) -> bool:
    return one.tobytes() == other.tobytes() if isinstance(one, np.ndarray) else bool(one == other)


def continued(path: Path) -> str:
    """Resume a file for a generation; return what is wrong with it after that."""
    try:
        file = writer.resume(path)
        append(file, 1)
        file.close()
    except RunFileError:
        return ""
    now = contents(path)
    arrays = {name: rows for name, rows in now.items() if isinstance(rows, np.ndarray)}
    expected = {name: [row(number)[name] for number in range(len(rows))] for name, rows in arrays.items()}
    wrong = [name for name, rows in arrays.items() if not same(rows, np.array(expected[name]).astype(rows.dtype))]
    return f"other data after resume: {wrong}" if wrong or not now else ""


def trial(path: Path, whole: Contents, damage: Callable[[bytearray], None], ending: str) -> str:
    """Damage a copy of a file, and read and resume it in a process of its own; return what went wrong."""
    place = path.parent.with_name("case") / path.parent.name
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(path.parent, place)
    raw = bytearray((place / f"run.h5{ending}").read_bytes())
    damage(raw)
    (place / f"run.h5{ending}").write_bytes(raw)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        try:
            found = contents(place / "run.h5")
            fewer = found.get("generations", 0) < whole.get("generations", 0)  # a cut journal
            wrong = [name for name in found if not fewer and not same(found[name], whole[name])]
            said = f"other data: {wrong}" if wrong else ""
            said = said or ("" if "small" in whole else continued(place / "run.h5"))
        except BaseException as error:
            said = f"traceback: {error!r}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    with open(reading, "rb") as pipe:
        return f"ended with status {status}" if status else pipe.read().decode()


def flip(chance: random.Random, raw: bytearray) -> None:
    raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)


def zero(chance: random.Random, raw: bytearray) -> None:
    size = chance.choice([8, 64, 512, 4096])
    start = chance.randrange(max(1, len(raw) - size))
    raw[start : start + size] = bytes(len(raw[start : start + size]))


def cut(chance: random.Random, raw: bytearray) -> None:
    del raw[chance.randrange(len(raw)) :]


@pytest.mark.parametrize("kind", ["closed", "long", "killed", "killed.journal", "small"])
def test_random_damage_gives_an_error_or_the_right_data(kind: str, tmp_path: Path) -> None:
    name, chance = kind.partition(".")[0], random.Random(kind)
    path = write(tmp_path / name, name)
    whole, faults = contents(path), []
    assert whole
    for number in range(-(-DAMAGES // 5)):
        how = (flip, zero, flip, cut, flip)[number % 5]
        if fault := trial(path, whole, lambda raw, how=how: how(chance, raw), kind.removeprefix(name)):
            faults.append(f"{number} {how.__name__}: {fault}")
    assert faults == []


@pytest.mark.parametrize(
    "harm", ["external", "soft", "storage", "virtual", "filter", "type", "shape", "short", "claimed", "missing"]
)
def test_a_dataset_that_is_not_what_the_list_says_is_refused_and_nothing_else_is_touched(
    harm: str, tmp_path: Path
) -> None:
    path, other = made(tmp_path / "run.h5", 6), made(tmp_path / "other.h5", 6)
    (tmp_path / "secret").write_bytes(bytes(48))
    before = {each: each.read_bytes() for each in (other, tmp_path / "secret")}
    with h5py.File(path, "r+") as file:
        name, shape = "generations/clock", (6,)
        del file[name]
        if harm == "external":
            file[name] = h5py.ExternalLink(str(other), name)
        elif harm == "soft":
            file[name] = h5py.SoftLink("/generations/digest")
        elif harm == "storage":
            file.create_dataset(name, shape, "<f8", external=[(str(tmp_path / "secret"), 0, 48)])
        elif harm == "virtual":
            layout = h5py.VirtualLayout(shape, "<f8")
            layout[:] = h5py.VirtualSource(str(other), name, shape)
            file.create_virtual_dataset(name, layout)
        elif harm == "filter":
            file.create_dataset(name, shape, "<f8", chunks=shape, compression="lzf")
        elif harm == "type":
            file.create_dataset(name, data=np.zeros(6, "<f4"))
        elif harm == "shape":
            file.create_dataset(name, data=np.zeros((6, 1)))
        elif harm == "short":
            file.create_dataset(name, data=np.zeros(5))
        elif harm == "claimed":
            file.create_dataset(name, shape, "<f8", chunks=(6,))  # of which nothing was written
    for use in (lambda: Reader(path)["clock"][:], lambda: Reader(path).check_last(), lambda: writer.resume(path)):
        with pytest.raises(RunFileError, match="is damaged, or was not written by ees_mpi: /generations"):
            use()
    assert {each: each.read_bytes() for each in before} == before


@pytest.mark.parametrize("claim", ["sizes", "generations", "sessions", "state", "text"])
def test_a_file_that_claims_too_much_is_refused_before_memory_is_allocated(claim: str, tmp_path: Path) -> None:
    path, much = made(tmp_path / "run.h5", 6), 2 * 10**9
    with h5py.File(path, "r+") as file:
        values, counts = hdf5.read_attributes(file), hdf5.read_attributes(file["final"])
        if claim == "sizes":
            values["sizes"] = json.dumps({**SIZES, "individual": 10**7})
        elif claim == "generations":
            counts["generations"] = much
            for dataset in file["generations"].values():
                if dataset.maxshape[0] is None:
                    dataset.resize(much, axis=0)
        elif claim == "sessions":
            counts["sessions"] = much
        elif claim == "state":
            del file["final/mean"]
            file.create_dataset("final/mean", (much,), "<f4", chunks=(10**6,), fletcher32=True)
            counts["arrays"] = json.dumps([("mean", "<f4", (much,), 0)])
        hdf5.write_attributes(file, values)
        hdf5.write_attributes(file["final"], counts)
        if claim == "text":
            file.attrs.create("seed", np.bytes_(b"a" * 10), dtype=h5py.string_dtype("utf-8", 2 * 10**6))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def use() -> None:
        with Reader(path) as file:
            file.sessions(), file.state_arrays(), file["behavior"][:]

    with pytest.raises(RunFileError, match="damaged"):
        use()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 100_000  # KB


def test_a_number_that_was_changed_with_the_checksums_of_hdf5_is_noticed(tmp_path: Path) -> None:
    path = made(tmp_path / "run.h5", 20)
    with h5py.File(path, "r+") as file:
        file["generations/behavior"][17, 2, 1] += 1e-9
        file["final/mean"][0, 0] += 1
    with Reader(path) as opened:
        assert len(opened["behavior"][:17]) == 17 and len(opened["clock"][:]) == 20
        with pytest.raises(RunFileError, match="behavior has wrong checksums in the generations 17 to 17"):
            opened["behavior"][:]
        with pytest.raises(RunFileError, match="/final/mean has a wrong checksum"):
            opened.state_arrays()
        with pytest.raises(RunFileError, match="wrong checksums in behavior of generations 17 to 17"):
            opened.check_all()


def chunk_of(path: Path, name: str) -> slice:
    """Return the place of the first chunk of a dataset on the disk."""
    with h5py.File(path) as file:
        chunk = file[name].id.get_chunk_info_by_coord((0,) * file[name].ndim)
    return slice(chunk.byte_offset, chunk.byte_offset + chunk.size)


@pytest.mark.parametrize("name", ["behavior", "checksums"])
@pytest.mark.parametrize("zeroed", [True, False])
def test_damage_far_from_the_end_leaves_the_rest_readable_and_is_told_by_resume(
    name: str, zeroed: bool, tmp_path: Path
) -> None:
    path = made(tmp_path / "run.h5", 20)
    raw, place = bytearray(path.read_bytes()), chunk_of(path, f"generations/{name}")
    raw[place] = bytes(place.stop - place.start) if zeroed else bytes([raw[place.start] ^ 1]) + raw[place][1:]
    path.write_bytes(raw)
    with Reader(path) as opened:
        assert opened["behavior"][16:].tobytes() == np.array([row(g)["behavior"] for g in range(16, 20)]).tobytes()
        with pytest.raises(RunFileError, match="behavior has wrong checksums in the generations 0 to 15"):
            opened["behavior"][:]
    file = writer.resume(path)
    assert "wrong checksums in behavior of generations 0 to 15" in file.pop_warning()
    append(file, 1)
    file.close()
    with Reader(path) as opened:
        assert opened["behavior"][20].tobytes() == row(20)["behavior"].tobytes()


@pytest.mark.parametrize("name", ["behavior", "digest", "checksums"])
def test_a_damaged_chunk_at_the_end_is_named_and_neither_folded_over_nor_resumed(name: str, tmp_path: Path) -> None:
    path = made(tmp_path / "run.h5", 4, 3, closed=False)
    raw = bytearray(path.read_bytes())
    raw[chunk_of(path, f"generations/{name}").start] ^= 1
    path.write_bytes(raw)
    kept = path.read_bytes(), journal.path_of(path).read_bytes()
    for start in (writer.resume, writer.repair):
        with pytest.raises(RunFileError, match="has wrong checksums in the generations 2 to 2"):
            start(path)
    with Reader(path) as opened:
        assert opened["behavior"][3].tobytes() == row(3)["behavior"].tobytes()
    assert (path.read_bytes(), journal.path_of(path).read_bytes()) == kept


def test_a_damaged_journal_is_used_up_to_the_damage_and_moved_aside(tmp_path: Path) -> None:
    path = made(tmp_path / "run.h5", 6, 3, closed=False)
    beside = journal.path_of(path)
    raw = bytearray(beside.read_bytes())
    raw[-300] ^= 1
    beside.write_bytes(raw)
    with pytest.raises(RunFileError, match=r"cannot be read.*`ees-mpi repair` renames it"):
        Reader(path)
    for number in ("", "-2"):
        said = writer.repair(path)
        assert "is damaged" in said and said.endswith(f"it is now {beside}.damaged{number}")
        assert Path(f"{beside}.damaged{number}").read_bytes() == raw and not beside.exists()
        with Reader(path) as file:
            assert 3 <= file.generations < 6 and not file.damage
        beside.write_bytes(raw)


def test_the_journal_of_another_run_is_refused_and_set_aside(tmp_path: Path) -> None:
    path, other = (made(tmp_path / name, 4, 2, closed=False) for name in ("run.h5", "other.h5"))
    journal.path_of(other).replace(journal.path_of(path))
    with pytest.raises(RunFileError, match="is the journal of another run"):
        Reader(path)
    assert "run.h5.journal.other-run" in writer.repair(path)
    with Reader(path) as file:
        assert file.generations == 2


def test_a_journal_that_does_not_continue_its_file_is_refused_and_nothing_is_touched(tmp_path: Path) -> None:
    path = made(tmp_path / "run.h5", 4, 2, closed=False)
    early, copy = (Path(shutil.copy(path, tmp_path / name)) for name in ("early.h5", "copy.h5"))
    file = writer.resume(path)
    append(file, 1)
    shutil.copy(journal.path_of(path), journal.path_of(early))
    file.release()
    other = writer.resume(copy)  # without its journal, with other numbers
    for number in (2, 3):
        other.append(row(number + 100), state(number))
    other.fold()
    other.release()
    shutil.copy(journal.path_of(path), journal.path_of(copy))
    for each, said in ((early, "were not copied at the same moment"), (copy, "does not follow the state before it")):
        before = each.read_bytes(), journal.path_of(each).read_bytes()
        for start in (Reader, writer.resume, writer.repair):
            with pytest.raises(RunFileError, match=said):
                start(each)
        assert (each.read_bytes(), journal.path_of(each).read_bytes()) == before


@pytest.mark.parametrize("harm", ["row", "state", "words"])
def test_a_journal_with_bad_contents_and_right_checksums_is_a_sentence(harm: str, tmp_path: Path) -> None:
    path = made(tmp_path / "run.h5", 4, 2, closed=False)
    last = journal.read(path).records[-1]
    next_one = journal.Record(last.number + 1, "generation", last.after, "new", row=last.row)
    data = journal.encode(replace(next_one, row=b"short") if harm == "row" else next_one)
    payload = data[journal.HEAD.size :]
    payload = payload.replace(b'"number"', b'"nomber"') if harm == "words" else payload
    payload = payload.replace(b'"state": []', b'"state": [["x", "<f8", [9]]]') if harm == "state" else payload
    head = struct.pack("<QI", len(payload), zlib.crc32(payload))
    with open(journal.path_of(path), "ab") as file:
        file.write(head + struct.pack("<I", zlib.crc32(head)) + payload)
    for start in (Reader, writer.resume, writer.repair):
        with pytest.raises(RunFileError, match=r"run.h5.journal is damaged"):
            start(path)


def test_a_damaged_heap_of_the_dimension_scales_does_not_matter(tmp_path: Path) -> None:
    path = made(tmp_path / "run.h5", 4, 2, closed=False)
    raw = bytearray(path.read_bytes())
    place = raw.index(b"GCOL")
    raw[place + 8 : place + 64] = bytes(56)  # a size of 0: HDF5 hangs when it reads the scales
    path.write_bytes(raw)
    file = writer.resume(path)
    append(file, 1)
    file.close()
    with Reader(path) as opened:
        opened.check_all()
        assert opened.generations == 5
