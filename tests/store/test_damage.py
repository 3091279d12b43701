"""Damaged and forged files: an error or the right numbers, never other numbers, a hang or a traceback.

EES_TEST_DAMAGES=3000 tries more.
"""

import contextlib
import json
import os
import random
import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from support.small_store import CHUNK, append, check, in_a_process, made, row, rows, state

from ees_mpi.errors import RunFileError
from ees_mpi.store import hdf5, journal, writer
from ees_mpi.store.reader import Reader, read_arrays

DAMAGES = int(os.environ.get("EES_TEST_DAMAGES", "60"))
SECONDS = 60  # a case takes a hundredth of a second; a hang is ended
SMALL = "ees_mpi small"
COUNTS = {"closed": 6, "long": 40, "killed": 6, "small": 4}  # generations; "long" has more than one chunk


def flip(chance: random.Random, raw: bytearray) -> None:
    raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)


def zero(chance: random.Random, raw: bytearray) -> None:
    size = chance.choice([8, 64, 512, 4096])
    start = chance.randrange(max(1, len(raw) - size))
    raw[start : start + size] = bytes(len(raw[start : start + size]))


def cut(chance: random.Random, raw: bytearray) -> None:
    del raw[chance.randrange(len(raw)) :]


def swap(chance: random.Random, raw: bytearray) -> None:
    size = chance.choice([16, 128, 1024])
    one, other = (chance.randrange(max(1, len(raw) - size)) for _ in range(2))
    raw[one : one + size], raw[other : other + size] = raw[other : other + size], raw[one : one + size]


def write(folder: Path, kind: str) -> Path:
    """Write a file of a kind into an empty folder."""
    folder.mkdir()
    path = folder / "run.h5"
    if kind == "small":
        writer.write_arrays(path, SMALL, {"note": "a text"}, state(COUNTS[kind] - 1))
        return path
    return made(path, COUNTS[kind], COUNTS[kind] // 2, closed=kind != "killed")


def contents(path: Path) -> dict[str, Any]:
    """Return everything that can be read of a file; what cannot be read is left out."""
    found: dict[str, Any] = {}

    def note(name: str, read: Callable[[], Any]) -> None:
        with contextlib.suppress(RunFileError):
            found[name] = read()

    if path.parent.name == "small":
        note("attributes", lambda: str(read_arrays(path, SMALL)[0]))
        note("state", lambda: of_bytes(read_arrays(path, SMALL)[1]))
    with contextlib.suppress(RunFileError), Reader(path) as file:
        note("attributes", lambda: str(file.attributes))
        note("generations", lambda: file.generations)
        note("sessions", lambda: str(file.sessions()))
        note("state", lambda: of_bytes(file.state_arrays()))
        for name in file:
            note(name, lambda name=name: file[name][:].tobytes())
            note(f"{name}[-1]", lambda name=name: file[name][-1].tobytes())
    return found


def of_bytes(arrays: dict[str, Any]) -> dict[str, bytes]:
    return {name: np.asarray(each).tobytes() for name, each in arrays.items()}


def faults(path: Path, whole: dict[str, Any]) -> list[str]:
    """Return what is read of a file and is not what was written to it; a journal that was cut has fewer generations."""
    found = contents(path)
    if found.get("generations") == whole.get("generations"):
        return [name for name in found if found[name] != whole[name]]
    count = found.get("generations", 0)
    expected = {"state": of_bytes(state(count - 1)), **{name: rows(name, count).tobytes() for name in row(0)}}
    return [name for name in found if name in expected and found[name] != expected[name]]


def faults_of_resumed(path: Path, whole: dict[str, Any]) -> list[str]:
    """Resume a file for a generation, if it is not refused; return its faults after that."""
    try:
        file = writer.resume(path)
    except RunFileError:
        return []
    append(file)
    file.close()
    return faults(path, whole) if contents(path) else ["lost by resume"]


@pytest.mark.parametrize("kind", ["closed", "long", "killed", "killed.journal", "small"])
def test_random_damage_gives_an_error_or_the_right_data(kind: str, tmp_path: Path) -> None:
    name, chance = kind.partition(".")[0], random.Random(kind)
    path, harmed = write(tmp_path / name, name), f"run.h5{kind.removeprefix(name)}"
    whole, place = contents(path), tmp_path / "case" / name
    assert whole["state"] == of_bytes(state(COUNTS[name] - 1))

    def damage_many(tell: Callable[[bytes], object]) -> None:
        for number in range(-(-DAMAGES // 5)):
            signal.alarm(SECONDS)
            how = (flip, zero, swap, cut, flip)[number % 5]
            tell(f"{number} {how.__name__}".encode())
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(path.parent, place)
            raw = bytearray((place / harmed).read_bytes())
            how(chance, raw)
            (place / harmed).write_bytes(raw)
            assert faults(place / "run.h5", whole) == []
            assert faults_of_resumed(place / "run.h5", whole) == []

    ended, told = in_a_process(damage_many)
    assert ended == 0, told[-500:]


@pytest.mark.parametrize("harm", ["external", "storage", "virtual", "filter", "type", "shape", "claimed"])
def test_a_dataset_that_is_not_what_the_list_says_is_refused_and_nothing_else_is_touched(
    harm: str, tmp_path: Path
) -> None:
    path, other, name, shape = made(tmp_path / "run.h5", 6), made(tmp_path / "other.h5", 6), "generations/clock", (6,)
    before = other.read_bytes()
    with h5py.File(path, "r+") as file:
        del file[name]
        if harm == "external":
            file[name] = h5py.ExternalLink(str(other), name)
        elif harm == "storage":
            file.create_dataset(name, shape, "<f8", external=[(str(other), 0, 48)])
        elif harm == "virtual":
            layout = h5py.VirtualLayout(shape, "<f8")
            layout[:] = h5py.VirtualSource(str(other), name, shape)
            file.create_virtual_dataset(name, layout)
        elif harm == "filter":
            file.create_dataset(name, shape, "<f8", chunks=shape, compression="lzf")
        elif harm == "claimed":
            file.create_dataset(name, shape, "<f8", chunks=shape)  # of which nothing was written
        else:
            file.create_dataset(name, shape if harm == "type" else (6, 1), "<f4" if harm == "type" else "<f8")
    for use in (lambda: Reader(path)["clock"][:], lambda: Reader(path).check_last(), lambda: writer.resume(path)):
        with pytest.raises(RunFileError, match="is damaged, or was not written by ees_mpi: /generations"):
            use()
    assert other.read_bytes() == before


@pytest.mark.parametrize("claim", ["generations", "sessions", "state", "text"])
def test_a_file_that_claims_too_much_is_refused_before_memory_is_allocated(claim: str, tmp_path: Path) -> None:
    path, much = made(tmp_path / "run.h5", 6), 2 * 10**9
    with h5py.File(path, "r+") as file:
        counts = hdf5.read_attributes(file["final"])
        if claim == "generations":
            for dataset in file["generations"].values():
                if dataset.maxshape[0] is None:
                    dataset.resize(much, axis=0)
        elif claim == "state":
            del file["final/mean"]
            file.create_dataset("final/mean", (much,), "<f4", chunks=(10**6,), fletcher32=True)
            counts["arrays"] = json.dumps([("mean", "<f4", (much,), 0)])
        elif claim == "text":
            file.attrs.create("seed", np.bytes_(b"a" * 10), dtype=h5py.string_dtype("utf-8", 2 * 10**6))
        hdf5.write_attributes(file["final"], {**counts, claim: much} if claim in counts else counts)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RunFileError, match="damaged"), Reader(path) as file:
        file.sessions(), file.state_arrays(), file["behavior"][:]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 100_000  # KB


def flipped(path: Path, name: str) -> None:
    """Flip a bit of the first chunk of a dataset on the disk."""
    with h5py.File(path) as file:
        place = file[name].id.get_chunk_info_by_coord((0,) * file[name].ndim).byte_offset
    raw = bytearray(path.read_bytes())
    raw[place] ^= 1
    path.write_bytes(raw)


def test_numbers_that_were_changed_with_the_checksums_of_hdf5_are_noticed(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("name", ["behavior", "checksums"])
def test_damage_far_from_the_end_leaves_the_rest_readable_and_is_told_by_resume(name: str, tmp_path: Path) -> None:
    path = made(tmp_path / "run.h5", CHUNK + 4)
    flipped(path, f"generations/{name}")
    with Reader(path) as opened:
        assert opened["behavior"][CHUNK:].tobytes() == rows("behavior", CHUNK + 4)[CHUNK:].tobytes()
        with pytest.raises(RunFileError, match="behavior has wrong checksums in the generations 0 to 15"):
            opened["behavior"][:]
    file = writer.resume(path)
    assert "wrong checksums in behavior of generations 0 to 15" in file.pop_warning()
    append(file)
    file.close()
    with Reader(path) as opened:
        assert opened["behavior"][CHUNK + 4].tobytes() == row(CHUNK + 4)["behavior"].tobytes()


@pytest.mark.parametrize("name", ["behavior", "checksums"])
def test_a_damaged_chunk_at_the_end_is_named_and_neither_folded_over_nor_resumed(name: str, tmp_path: Path) -> None:
    path = made(tmp_path / "run.h5", 4, 3, closed=False)
    flipped(path, f"generations/{name}")
    kept = path.read_bytes(), journal.path_of(path).read_bytes()
    for start in (writer.resume, writer.repair):
        with pytest.raises(RunFileError, match="has wrong checksums in the generations 2 to 2"):
            start(path)
    with Reader(path) as opened:
        assert opened["behavior"][3].tobytes() == row(3)["behavior"].tobytes()
    assert (path.read_bytes(), journal.path_of(path).read_bytes()) == kept


def test_a_damaged_heap_of_the_dimension_scales_does_not_matter(tmp_path: Path) -> None:
    path = made(tmp_path / "run.h5", 4, 2, closed=False)
    raw = bytearray(path.read_bytes())
    place = raw.index(b"GCOL")
    raw[place + 8 : place + 64] = bytes(56)  # a size of 0: HDF5 hangs when it reads the scales
    path.write_bytes(raw)
    writer.resume(path).close()
    check(path, 4)


def test_a_journal_is_read_up_to_where_it_was_cut_and_every_other_fault_is_damage(tmp_path: Path) -> None:
    path = made(tmp_path / "run.h5", 2, closed=False)
    sound = journal.path_of(path).read_bytes()
    sizes = [len(journal.encode(record)) for record in journal.parse(sound).records]
    ends = [journal.START + sum(sizes[:count]) for count in range(len(sizes) + 1)]
    assert len(ends) == 4 and ends[-1] == len(sound)  # a session, and two generations
    for place in range(len(sound)):
        read = journal.parse(sound[:place])
        assert not read.damaged and read.cut == (place not in ends)
        assert len(read.records) == max(0, sum(end <= place for end in ends) - 1)
        raw = bytearray(sound)
        raw[place] ^= 1 << place % 8
        assert journal.parse(bytes(raw)).damaged or len(journal.MAGIC) <= place < journal.START, place


@pytest.mark.parametrize("harm", ["flipped", "other run"])
def test_a_journal_that_cannot_be_used_is_refused_and_repair_renames_it(harm: str, tmp_path: Path) -> None:
    path, other = (made(tmp_path / name, 6, 3, closed=False) for name in ("run.h5", "other.h5"))
    beside, ending = journal.path_of(path), "damaged" if harm == "flipped" else "other-run"
    raw = bytearray(journal.path_of(path if harm == "flipped" else other).read_bytes())
    raw[-300] ^= harm == "flipped"
    for number in ("", "-2"):
        beside.write_bytes(raw)
        with pytest.raises(RunFileError, match="`ees-mpi repair` renames it, and keeps all that can be read"):
            Reader(path)
        assert writer.repair(path).endswith(f"it is now {beside}.{ending}{number}")
        assert Path(f"{beside}.{ending}{number}").read_bytes() == raw and not beside.exists()
        with Reader(path) as file:
            assert file.generations == (5 if harm == "flipped" else 3) and not file.damage


@pytest.mark.parametrize("harm", ["forged", "older file", "other numbers"])
def test_a_journal_that_does_not_continue_its_file_is_refused_and_nothing_is_touched(harm: str, tmp_path: Path) -> None:
    path = made(tmp_path / "run.h5", 4, 2, closed=False)
    copy, beside = Path(shutil.copy(path, tmp_path / "copy.h5")), journal.path_of(path)  # a copy without its journal
    if harm == "forged":
        last, said = journal.read(path).records[-1], "run.h5.journal is damaged"
        wrong = journal.Record(last.number + 1, "generation", last.after, "new", row=b"short")
        beside.write_bytes(beside.read_bytes() + journal.encode(wrong))
    else:
        file, said = writer.resume(path), "were not copied at the same moment"
        append(file)
        file.release()
    if harm == "other numbers":
        file, said = writer.resume(copy), "does not follow the state before it"
        for number in (2, 3):
            file.append(row(number + 100), state(number))
        file.fold()
        file.release()
    if harm != "forged":
        copy.replace(path)
    before = path.read_bytes(), beside.read_bytes()
    for start in (Reader, writer.resume, writer.repair):
        with pytest.raises(RunFileError, match=said):
            start(path)
    assert (path.read_bytes(), beside.read_bytes()) == before
