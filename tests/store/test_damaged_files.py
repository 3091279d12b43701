"""Run files and journals that are damaged, replaced or made by a stranger: noticed, named, refused."""

import contextlib
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from support.program import TINY, done, ees, info, refusal
from support.run_files import flipped, renew
from support.small_runs import job_of, until, walk

from ees_mpi import open_run
from ees_mpi.config import Config
from ees_mpi.errors import RunFileError
from ees_mpi.generation.state import first_state
from ees_mpi.store import chunks, fold, journal, lock, reader, records, safety
from ees_mpi.store.lock import Lock
from ees_mpi.store.writer import RunWriter
from ees_mpi.training import train

Make = Callable[..., Path]


def write(path: Path, stops: tuple[int, int]) -> None:
    walk(path, "interference-maxvar", *TINY, stops=stops, closed=stops[1] == 6)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs that tests copy."""
    return tmp_path_factory.mktemp("written")


@pytest.fixture
def made(tmp_path: Path, written: Path) -> Make:
    """Make a run of 6 generations, folded after 3; killed with 4 of 6 if asked for. Each name is another run."""

    def make(killed: bool = False, name: str = "run.h5") -> Path:
        source = written / f"{killed}-{name}"
        if not source.exists():
            write(source, (3, 4 if killed else 6))
        for suffix in ("", ".journal")[: 1 + killed]:
            shutil.copy(f"{source}{suffix}", tmp_path / f"{name}{suffix}")
        return tmp_path / name

    return make


@pytest.mark.parametrize("kind", ["external", "storage", "virtual", "filter", "text", "huge", "claimed", "twice"])
def test_a_file_that_leads_out_of_itself_or_claims_too_much_is_refused_and_nothing_else_is_touched(
    kind: str, made: Make, tmp_path: Path
) -> None:
    run, other = made(), made(name="other.h5")
    (tmp_path / "secret").write_bytes(bytes(48))
    before = {path: path.read_bytes() for path in (other, tmp_path / "secret")}
    checked = {"chunks": (6,), "fletcher32": True}
    with h5py.File(run, "r+") as file:
        name = "generations/entropy"
        if kind in ("external", "storage", "virtual", "filter"):
            del file[name]
        if kind == "external":
            file[name] = h5py.ExternalLink(str(other), name)
        elif kind == "storage":
            file.create_dataset(name, (6,), "<f8", external=[(str(tmp_path / "secret"), 0, 48)])
        elif kind == "virtual":
            layout = h5py.VirtualLayout((6,), "<f8")
            layout[:] = h5py.VirtualSource(str(other), name, (6,))
            file.create_virtual_dataset(name, layout)
        elif kind == "filter":
            file.create_dataset(name, (6,), "<f8", compression="lzf", **checked)
        elif kind == "text":  # in a heap, in which HDF5 can hang if it is damaged
            compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            compact.set_layout(h5py.h5d.COMPACT)
            text = h5py.h5t.py_create(h5py.string_dtype(), logical=True)
            h5py.h5d.create(file["final"].id, b"extra", text, h5py.h5s.create_simple((6,)), compact)
        elif kind == "huge":
            file.create_dataset("final/extra", (10**12,), "<f8", **checked)
        elif kind == "claimed":
            for dataset in file["generations"].values():
                if dataset.maxshape[0] is None:
                    dataset.resize(10**9, axis=0)
        else:
            file["generations/again"] = file["generations"]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for words in (["info", run], ["resume", run, "--generations", 8], ["repair", run]):
        code, line = refusal(*words)
        assert code == 3 and "is refused" in line, line
    assert {path: path.read_bytes() for path in before} == before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 300_000  # KB


@pytest.mark.parametrize(
    ("name", "row", "seen_by"),
    [
        ("final/mean", 0, ["info", "resume", "sample", "verify"]),
        ("generations/behavior", 5, ["resume", "verify", "export"]),
        ("generations/entropy", 1, ["verify", "export", "report"]),
        ("generations/seconds_clock", 2, ["verify", "verify --updates", "info"]),
        ("generations/generation", 2, ["resume", "verify"]),
        ("sessions/ranks", 0, ["info", "resume", "verify"]),
    ],
)
def test_a_flipped_bit_is_noticed_by_the_commands_that_rely_on_it(
    name: str, row: int, seen_by: list[str], made: Make, tmp_path: Path
) -> None:
    run = made()
    flipped(run, name, row)
    options = {"resume": ["--generations", 8], "sample": ["--count", 2, "-o", tmp_path / "s.h5"], "export": ["--csv"]}
    for command in seen_by:
        code, line = refusal(*command.split(), run, *options.get(command, []))
        assert code == 3 and "damaged" in line, command


def test_a_state_that_is_not_that_of_its_generations_is_noticed(made: Make) -> None:
    run = made()
    with h5py.File(run, "r+") as file:
        file["final/mean"][0, 0] += 1  # with the right checksum of HDF5
    for words in (["info", run], ["resume", run, "--generations", 8], ["sample", run, "--count", 2], ["verify", run]):
        code, line = refusal(*words)
        assert code == 3 and "final does not have its digest" in line


def test_a_changed_attribute_is_noticed(made: Make) -> None:
    run = made()
    with h5py.File(run, "r+") as file:
        file.attrs["seed"] = 5
    with pytest.raises(RunFileError, match="its attributes do not have the hash"):
        open_run(run)


def test_a_damaged_final_is_named_and_refused_and_a_new_run_starts_from_a_mean_of_the_file(
    made: Make, tmp_path: Path
) -> None:
    run = made()
    with open_run(run) as before:
        behavior, mean = before["behavior"][:], before["mean"][3]
    flipped(run, "final/mean")
    harmed = run.read_bytes()
    for words in (["resume", run, "--generations", 8], ["repair", run]):
        code, line = refusal(*words)
        assert code == 3 and f"{run} is damaged" in line and "/final/mean" in line and "--from RUN.h5@G" in line, line
    assert run.read_bytes() == harmed and [path.name for path in tmp_path.iterdir()] == ["run.h5"]
    with open_run(run) as damaged:
        assert damaged["behavior"][:].tobytes() == behavior.tobytes()
    sets = ["--set", "population.size=20", "--set", "noise.size=5000", "--set", "run.generations=1"]
    done("train", "interference-maxvar", *sets, "--from", f"{run}@3", "--out", tmp_path / "new.h5")
    with open_run(tmp_path / "new.h5") as new:
        assert new["mean"][0].tobytes() == mean.tobytes()


@pytest.mark.parametrize("name", ["fitness", "sign", "state_sha256", "generation"])
def test_a_damaged_chunk_at_the_end_is_named_and_neither_folded_over_nor_resumed(name: str, made: Make) -> None:
    run = made(killed=True)
    flipped(run, f"generations/{name}", 2)
    kept = run.read_bytes(), journal.path_of(run).read_bytes()
    for words in (["resume", run], ["repair", run]):
        code, line = refusal(*words)
        assert code == 3 and f"/generations/{name} has wrong checksums in the generations 0 to 2" in line, line
    with open_run(run) as opened:
        assert len(opened["entropy"][:]) == 4
    assert (run.read_bytes(), journal.path_of(run).read_bytes()) == kept


def zeroed(path: Path, name: str) -> None:
    """Zero the first chunk of a dataset on the disk, and its checksum: that of zeros is zero, so HDF5 reads it."""
    with h5py.File(path) as file:
        chunk = file[name].id.get_chunk_info_by_coord((0, 0))
    raw = bytearray(path.read_bytes())
    raw[chunk.byte_offset : chunk.byte_offset + chunk.size] = bytes(chunk.size)
    path.write_bytes(raw)


@pytest.mark.parametrize("harm", [flipped, zeroed])
def test_damage_far_from_the_end_is_named_by_repair_and_the_rest_can_be_read(
    harm: Callable[..., None], tmp_path: Path
) -> None:
    run = walk(tmp_path / "run.h5", "interference-maxvar", *TINY, "run.generations=20", stops=(20,))
    with open_run(run) as whole:
        fitness, entropy = whole["fitness"][:], whole["entropy"][:]
    harm(run, "generations/fitness")
    code, line = refusal("repair", run)
    assert code == 3 and f"{run} is damaged: wrong checksums in fitness of generations 0 to 15" in line, line
    with open_run(run) as opened, h5py.File(run) as file:
        assert opened["entropy"][:].tobytes() == entropy.tobytes()
        for rows in (opened["fitness"][16:], file["generations/fitness"][16:]):
            assert rows.tobytes() == fitness[16:].tobytes()
        with pytest.raises(RunFileError, match="/generations/fitness has wrong checksums in the generations 0 to 15"):
            opened["fitness"][3]


def test_the_journal_of_a_killed_run_replaces_a_damaged_final(made: Make) -> None:
    run, whole = made(killed=True), made(name="whole.h5")
    flipped(run, "final/mean")
    assert "4 generations, journal folded" in done("repair", run).stdout
    done("resume", run)
    assert info(run)["state_sha256"] == info(whole)["state_sha256"]


def test_a_damaged_journal_is_reported_used_up_to_the_damage_and_moved_aside(made: Make) -> None:
    run = made(killed=True)
    beside = journal.path_of(run)
    raw = bytearray(beside.read_bytes())
    raw[-100] ^= 1
    beside.write_bytes(raw)
    assert "cannot be read" in str(info(run)["damage"]) and info(run)["generations"] == 3
    assert refusal("sample", run, "--count", 2)[0] == 3
    said = done("repair", run).stdout
    assert "is damaged" in said and f"{beside}.damaged" in said
    assert Path(f"{beside}.damaged").read_bytes() == raw and not beside.exists()
    assert info(run)["damage"] is None


@pytest.mark.parametrize("harm", ["arrays", "state", "before", "generation", "surplus", "short"])
def test_a_journal_with_bad_contents_is_a_sentence(harm: str, made: Make) -> None:
    run = made(killed=True)
    found = journal.read(run)
    last, state = found.records[-1], dict(found.state)
    if harm == "state":
        state["mean"] = state["mean"] + 1
    columns, data = records.flat({**last.arrays, "fitness": np.zeros(3)})
    forged = {"arrays": {"columns": columns, "data": data}, "before": {"before": "00" * 32}, "generation": {harm: -1}}
    forged |= {"surplus": {"data": last.data + bytes(8)}, "short": {"data": last.data[:-8]}}
    crafted = journal.encode(found.run_id, msgspec.structs.replace(last, **forged.get(harm, {})), state)
    beside = journal.path_of(run)
    beside.write_bytes(beside.read_bytes()[: -len(journal.encode(found.run_id, last, found.state))] + crafted)
    for command in ("sample", "resume", "repair"):
        code, line = refusal(command, run, *(["--count", 2] if command == "sample" else []))
        assert code == 3 and "run.h5.journal is damaged" in line, line
        if harm not in ("arrays", "before"):
            break  # `resume` and `repair` continue from the record before


@pytest.mark.usefixtures("quick_figures")
@pytest.mark.parametrize("harm", ["is missing", "ends within a record"])
def test_generations_that_may_be_missing_are_told_in_one_line(harm: str, made: Make, tmp_path: Path) -> None:
    run, other = made(killed=True), made(name="other.h5")
    beside, out = journal.path_of(run), ["-o", tmp_path / "out.h5"]
    if harm == "is missing":
        beside.unlink()
    else:
        beside.write_bytes(beside.read_bytes()[:-40])
    compare = ["compare", run, "--metric", "distance_mean", "--against", other]
    commands = ["metrics"], ["export", "--csv"], ["verify"], ["sample", "--count", 2, *out], ["report"], ["figure"]
    for words in ([command, run, *more] for command, *more in commands):
        assert done(*words).stderr.count(f"run.h5.journal {harm}") == 1, words
    assert ees(*compare).stderr.count(f"run.h5.journal {harm}") == 1
    assert done("resume", run).stdout.count(f"run.h5.journal {harm}") == 1
    assert info(run)["damage"] is None and done("metrics", run).stderr == ""


def test_a_resumed_run_without_its_journal_is_told_before_its_first_fold(made: Make) -> None:
    run = made()
    assert info(run)["damage"] is None
    with open_run(run) as opened:
        config = until(opened.config, 7)
    RunWriter.resume(run, config)[0].release()
    journal.path_of(run).unlink()
    assert "generations from 6 on may be lost" in str(info(run)["damage"])
    assert "generations from 6 on may be lost" in done("resume", run).stderr  # it has nothing to do
    assert "generations from 6 on may be lost" in done("repair", run).stdout
    assert info(run)["damage"] is None


def test_a_record_that_is_there_twice_is_refused_by_readers_and_writer_and_the_files_stay(made: Make) -> None:
    run = made(killed=True)
    beside, found = journal.path_of(run), journal.read(run)
    last = [record for record in found.records if record.kind == "generation"][-1]
    beside.write_bytes(beside.read_bytes() + journal.encode(found.run_id, last, found.state))
    kept = run.read_bytes(), beside.read_bytes()
    for command in ("info", "repair"):
        code, line = refusal(command, run)
        assert code == 3 and f"generation {last.generation} of the journal is there twice" in line, line
    with pytest.raises(RunFileError, match=rf"{beside.name} is damaged.* {last.generation} .* there twice"):
        fold.fold(run, [*found.records, last], found.state, found.run_id, closed=False)
    assert (run.read_bytes(), beside.read_bytes()) == kept


def test_the_journal_of_a_copy_that_went_another_way_is_refused(made: Make, tiny: Callable[..., Config]) -> None:
    run = made(killed=True)
    copy = Path(shutil.copy(run, run.with_name("copy.h5")))
    config = tiny("interference-maxvar", "run.fsync=false", "population.std=0.1")
    writer, contents = RunWriter.resume(copy, config)  # without its journal, with other numbers
    writer.begin_session(3, 1, 1, {})
    train(job_of(config), first_state(config).from_arrays(contents.state), writer)
    writer.fold()
    writer.release()
    shutil.copy(journal.path_of(run), journal.path_of(copy))
    code, line = refusal("sample", copy, "--count", 2)
    assert code == 3 and "generation 3 of the journal is another one than in the file" in line


def test_a_file_that_was_replaced_under_a_running_job_is_noticed_and_not_merged(
    tmp_path: Path, made: Make, tiny: Callable[..., Config]
) -> None:
    config = tiny("interference-maxvar", "run.fsync=false")
    writer = RunWriter.create(tmp_path / "job.h5", config, first_state(config).arrays())
    writer.begin_session(0, 1, 1, {})
    train(job_of(tiny("interference-maxvar", "run.generations=2")), first_state(config), writer)
    other = made(name="other.h5").read_bytes()
    (tmp_path / "job.h5").write_bytes(other)
    with pytest.raises(RunFileError, match="now holds another run"):
        writer.close()
    assert (tmp_path / "job.h5").read_bytes() == other
    assert len(journal.read(tmp_path / "job.h5").records) == 3


def test_the_journal_of_another_run_is_refused_by_readers_and_set_aside_by_repair(made: Make, tmp_path: Path) -> None:
    run, other, out = made(killed=True), made(killed=True, name="other.h5"), tmp_path / "out.h5"
    journal.path_of(other).replace(journal.path_of(run))
    for command, *more in (["verify"], ["sample", "--count", 2, "--out", out], ["export", "--csv"], ["report"]):
        code, line = refusal(command, run, *more)
        assert code == 3 and "run.h5.journal is the journal of another run. `ees-mpi repair` renames it" in line, line
    assert "another run" in info(run)["damage"] and "another run" in done("info", run, run).stdout
    assert "run.h5.journal.other-run" in done("repair", run).stdout
    done("sample", run, "--count", 2, "--out", out)


def test_the_journal_of_a_run_whose_file_was_deleted_is_kept(made: Make, tiny: Callable[..., Config]) -> None:
    run, config = made(killed=True), tiny("interference-maxvar")
    left = journal.path_of(run).read_bytes()
    run.unlink()
    RunWriter.create(run, config, first_state(config).arrays()).close()
    assert Path(f"{run}.journal.other-run").read_bytes() == left


def test_readers_never_refuse_a_run_while_another_one_overwrites_it(
    made: Make, tiny: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, config, seen = made(killed=True), tiny("interference-maxvar"), []
    unlink, replace = Path.unlink, os.replace

    def look(action: Callable[..., None], *words: object, **named: object) -> None:
        action(*words, **named)
        with open_run(run) as opened:
            seen.append(opened.generations)

    monkeypatch.setattr(Path, "unlink", lambda *words, **named: look(unlink, *words, **named))
    monkeypatch.setattr(os, "replace", lambda *words: look(replace, *words))
    writer = RunWriter.create(run, config, first_state(config).arrays(), overwrite=True)
    assert set(seen) == {4, 3, 0}  # with its journal, without it, and replaced
    writer.close()


def test_a_run_that_is_overwritten_between_the_reads_of_its_two_files_is_the_new_one(
    made: Make, tiny: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, config, original = made(killed=True), tiny("interference-maxvar"), reader.open_datasets

    def overwritten(path: Path) -> tuple[h5py.File, safety.Datasets]:
        RunWriter.create(run, config, first_state(config).arrays(), overwrite=True).release()
        return original(path)

    monkeypatch.setattr(reader, "open_datasets", overwritten)
    with open_run(run) as opened:
        assert opened.generations == 0 and not opened.damage


def test_a_sample_does_not_replace_an_unfinished_run(made: Make) -> None:
    run, killed = made(), made(killed=True, name="killed.h5")
    code, line = refusal("sample", run, "--count", 2, "--out", killed, "--overwrite")
    assert code == 3 and "unfinished run" in line and info(killed)["generations"] == 4


def test_a_link_to_a_killed_run_shows_its_journal(made: Make, tmp_path: Path) -> None:
    run, folder = made(killed=True), tmp_path / "links"
    folder.mkdir()
    link = folder / "link.h5"
    link.symlink_to(run)
    assert info(link)["generations"] == 4 and "4/6" in done("info", link, link).stdout
    sets = ["--set", "population.size=20", "--set", "noise.size=5000", "--set", "run.generations=1"]
    for source, name in ((run, "one.h5"), (link, "two.h5")):
        done("train", "interference-maxvar", *sets, "--from", source, "--out", tmp_path / name)
    assert info(tmp_path / "one.h5")["state_sha256"] == info(tmp_path / "two.h5")["state_sha256"]


def test_links_in_the_place_of_our_files_are_not_followed(made: Make, tmp_path: Path) -> None:
    run, victim = made(killed=True), tmp_path / "victim"
    victim.write_text("private")
    Path(f"{run}.lock").symlink_to(victim)
    with pytest.raises(RunFileError, match="is a symbolic link"):
        Lock(run)
    Path(f"{run}.lock").unlink()
    Path(f"{run}.folding").symlink_to(victim)
    Path(f"{run}.journal.new").symlink_to(victim)
    done("resume", run)
    assert victim.read_text() == "private" and info(run)["complete"]


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    path.symlink_to(path)
    assert [refusal(command, path)[0] for command in ("info", "resume", "repair")] == [3, 3, 3]


@pytest.mark.parametrize("name", ["generations/behavior", "generations/mean", "final", "sessions", "sessions/machine"])
def test_a_missing_part_is_named(name: str, copied: Path) -> None:
    with h5py.File(copied, "r+") as file:
        del file[name]
        with contextlib.suppress(Exception):
            renew(file)
    for command in ("info", "resume", "repair"):
        code, line = refusal(command, copied)
        assert code == 3 and f"damaged: it has no {name}" in line, line


@pytest.mark.parametrize(
    ("name", "rows", "said"),
    [
        ("generations/sign", np.zeros((6, 3), "i1"), "sign has the shape (6, 3)"),
        ("generations/fitness", np.zeros((6, 20, 1)), "fitness has the shape (6, 20, 1)"),
        ("generations/fitness", np.zeros((5, 20)), "fitness has the shape (5, 20)"),
        ("generations/fitness", np.zeros(6), "fitness has the shape (6,)"),
        ("generations/fitness", np.zeros((6, 20), "f4"), "the type float32; expected (6, 20) and <f8"),
        ("sessions/ranks", np.ones(2, "i8"), "its sessions have different lengths"),
        ("sessions/session", np.ones(1, "i8"), "not numbered from 0"),
        ("sessions/machine", np.array([b"{"]), "Expecting property name"),
    ],
)
def test_arrays_with_right_checksums_that_are_not_those_of_a_run_are_refused(
    name: str, rows: NDArray[Any], said: str, copied: Path
) -> None:
    with h5py.File(copied, "r+") as file:
        del file[name]
        chunks.append(chunks.create(file, name, rows.shape[1:], rows.dtype), rows)
        renew(file)
    for command in ("info", "resume", "repair"):
        code, line = refusal(command, copied)
        assert code == 3 and f"{copied} is damaged" in line and said in line, line


def test_attributes_of_other_kinds_are_refused(copied: Path) -> None:
    values = {"config": 7, "program": "of variable length", "seed": np.zeros(3)}
    said = ("its attribute config is not a text", *["is neither a number nor a text of a fixed length"] * 2)
    for (name, value), words in zip(values.items(), said, strict=True):
        path = Path(shutil.copy(copied, copied.with_name(f"{name}.h5")))
        with h5py.File(path, "r+") as file:
            file.attrs[name] = value
            if name == "config":
                renew(file)
        code, line = refusal("info", path)
        assert code == 3 and words in line, line


@pytest.mark.parametrize("name", ["mean", "offset", "sign"])
def test_an_individual_is_rebuilt_from_sound_arrays_only(name: str, made: Make) -> None:
    run = made()
    with open_run(run) as opened:
        whole = opened.individual(5, 2).tobytes()
    flipped(run, "generations/fitness", 5)
    with open_run(run) as opened:
        assert opened.individual(5, 2).tobytes() == whole
    flipped(run, f"generations/{name}", 5)
    with open_run(run) as opened, pytest.raises(RunFileError, match=f"generations/{name} has wrong checksums"):
        opened.individual(5, 2)


@pytest.mark.parametrize("start", ["resume", "repair"])
def test_a_start_that_fails_leaves_no_lock_and_loses_nothing(
    start: str, made: Make, tiny: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made(killed=True)

    def full(*words: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(RunFileError, match="No space left on device"):
        RunWriter.resume(run, tiny()) if start == "resume" else fold.repair(run)
    assert not lock.path_of(run).exists()
    monkeypatch.undo()
    fold.repair(run)
    with open_run(run) as opened:
        assert opened.generations == 4


def test_a_damaged_heap_of_the_dimension_scales_does_not_matter_to_any_command(made: Make) -> None:
    run = made(killed=True)
    raw = bytearray(run.read_bytes())
    place = raw.index(b"GCOL")
    raw[place + 8 : place + 64] = bytes(56)  # a size of 0: HDF5 hangs when it reads the scales
    run.write_bytes(raw)
    for words in (["info", run], ["config", run], ["repair", run], ["resume", run], ["verify", run]):
        done(*words)
    assert info(run)["complete"]
