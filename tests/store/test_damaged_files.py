"""Run files and journals that are damaged, replaced or made by a stranger: noticed, refused, repaired."""

import contextlib
import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.program import TESTS, done, ees, info, refusal
from support.run_files import edited, renew
from support.small_runs import job_of

from ees_mpi import open_run
from ees_mpi.config import Config
from ees_mpi.errors import RunFileError
from ees_mpi.generation.state import first_state
from ees_mpi.store import heaps, journal, reader, records, sessions, texts
from ees_mpi.store.lock import Lock
from ees_mpi.store.repair import repair
from ees_mpi.store.safety import check_ours
from ees_mpi.store.writer import RunWriter
from ees_mpi.training import train

Make = Callable[..., Path]


@pytest.fixture
def made(tmp_path: Path, tiny: Callable[..., Config]) -> Make:
    """Make a run of 6 generations, folded after 3; killed with 4 of 6 if asked for."""

    def make(killed: bool = False, name: str = "run.h5") -> Path:
        config = tiny("interference-maxvar", "run.fsync=false")
        writer = RunWriter.create(tmp_path / name, config, first_state(config).arrays())
        writer.begin_session(0, 1, 1, {"numpy": "0"})
        state = train(job_of(tiny("interference-maxvar", "run.generations=3")), first_state(config), writer)
        writer.fold()
        last = 4 if killed else 6
        train(job_of(tiny("interference-maxvar", f"run.generations={last}")), state, writer)
        writer.release() if killed else writer.close()
        return tmp_path / name

    return make


@pytest.mark.parametrize("kind", ["external", "soft", "storage", "virtual", "filter", "huge", "twice"])
def test_a_file_that_leads_out_of_itself_or_claims_too_much_is_refused_and_nothing_else_is_touched(
    kind: str, made: Make, tmp_path: Path
) -> None:
    run, other = made(), made(name="other.h5")
    (tmp_path / "secret").write_bytes(bytes(48))
    before = {path: path.read_bytes() for path in (other, tmp_path / "secret")}
    with h5py.File(run, "r+") as file:
        name = "generations/entropy"
        if kind != "twice":
            del file[name]
        if kind == "external":
            file[name] = h5py.ExternalLink(str(other), name)
        elif kind == "soft":
            file[name] = h5py.SoftLink("/generations/distance_mean")
        elif kind == "storage":
            file.create_dataset(name, (6,), "<f8", external=[(str(tmp_path / "secret"), 0, 48)])
        elif kind == "virtual":
            layout = h5py.VirtualLayout((6,), "<f8")
            layout[:] = h5py.VirtualSource(str(other), name, (6,))
            file.create_virtual_dataset(name, layout)
        elif kind == "filter":
            file.create_dataset(name, data=np.zeros((6, 20)), compression="lzf")
        elif kind == "huge":
            file.create_dataset(name, (10**12,), "<f8", chunks=(64,))
        else:
            file["generations/again"] = file["generations"]
    for words in (["info", run], ["resume", run, "--generations", 8], ["repair", run], ["export", run, "--csv"]):
        code, line = refusal(*words)
        assert code == 3 and "is refused" in line
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    ("name", "place", "seen_by"),
    [
        ("final/mean", (0, 0), ["info", "resume", "sample", "verify"]),
        ("generations/behavior", (5, 3, 0), ["info", "resume", "verify", "export", "sample"]),
        ("generations/entropy", (1,), ["verify", "export"]),
        ("generations/seconds_clock", (2,), ["verify", "verify --updates"]),
        ("generations/generation", (2,), ["resume", "verify"]),
        ("sessions/ranks", (0,), ["info", "resume", "verify", "sample"]),
    ],
)
def test_a_changed_number_is_noticed_by_the_commands_that_rely_on_it(
    name: str, place: tuple[int, ...], seen_by: list[str], made: Make, tmp_path: Path
) -> None:
    run = made()
    with h5py.File(run, "r+") as file:
        file[name][place] += 1
    options = {
        "resume": ["--generations", 8],
        "sample": ["--count", 2, "--out", tmp_path / "sample.h5"],
        "export": ["--csv"],
    }
    for command in seen_by:
        code, line = refusal(*command.split(), run, *options.get(command, []))
        assert code == 3 and "damaged" in line, command


@pytest.mark.parametrize(
    ("name", "place", "value", "seen_by"),
    [
        ("final/mean", (0, 0), np.inf, ["info", "resume", "sample", "train"]),
        ("generations/mean", (2, 0, 0), np.nan, ["sample @2"]),
        ("generations/offset", (5, 3), 2**62, ["verify", "verify --updates"]),
        ("generations/parent", (5, 3), 9, ["verify", "verify --updates"]),
    ],
)
def test_numbers_that_no_run_can_have_are_refused_though_their_hashes_are_right(
    name: str, place: tuple[int, ...], value: float, seen_by: list[str], made: Make, tmp_path: Path
) -> None:
    run = made()
    with edited(run) as file:
        file[name][place] = value
    words: dict[str, list[object]] = {
        "info": ["info", run],
        "resume": ["resume", run, "--generations", 8],
        "sample": ["sample", run, "--count", 2, "--out", tmp_path / "sample.h5"],
        "sample @2": ["sample", run, "--generation", 2, "--count", 2, "--out", tmp_path / "sample.h5"],
        "train": ["train", "interference-maxvar", "--from", run, "--out", tmp_path / "out.h5"],
        "verify": ["verify", run],
        "verify --updates": ["verify", run, "--updates"],
    }
    for command in seen_by:
        code, line = refusal(*words[command])
        assert code == 3 and "damaged" in line, command


def test_a_changed_attribute_is_noticed(made: Make) -> None:
    run = made()
    with h5py.File(run, "r+") as file:
        file.attrs["seed"] = 5
    with pytest.raises(RunFileError, match="its attributes do not have the hash"):
        open_run(run)


def test_info_says_what_was_not_checked(made: Make) -> None:
    assert "`ees-mpi verify` checks the arrays of all generations" in str(info(made())["checked"])


@pytest.mark.parametrize("name", ["final/mean", "generations/fitness", "final"])
def test_repair_returns_to_the_state_before_and_says_what_is_lost(name: str, made: Make, tmp_path: Path) -> None:
    run, whole = made(), made(name="whole.h5")
    with h5py.File(run, "r+") as file:
        if name == "final":
            del file[name]
        else:
            file[name][-1] += 1
    harmed = run.read_bytes()
    said = done("repair", run).stdout
    assert "generations 3 to 5 are lost" in said and "3 generations" in said
    assert Path(f"{run}.damaged").read_bytes() == harmed
    done("resume", run)
    assert info(run)["state_sha256"] == info(whole)["state_sha256"]
    done("verify", run)


def test_a_file_without_a_whole_state_is_refused_by_repair_and_left_as_it_is(made: Make, tmp_path: Path) -> None:
    run = made()
    with h5py.File(run, "r+") as file:
        file["final/mean"][0, 0] += 1
        file["previous/mean"][0, 0] += 1
    harmed = run.read_bytes()
    assert refusal("repair", run)[0] == 3
    assert run.read_bytes() == harmed and [path.name for path in tmp_path.iterdir()] == ["run.h5"]


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


@pytest.mark.parametrize("harm", ["arrays", "state", "kind", "number", "session", "gap", "run"])
def test_a_journal_with_bad_contents_is_a_sentence(harm: str, made: Make) -> None:
    run = made(killed=True)
    found = journal.read(run)
    last, state = found.records[-1], dict(found.state)
    columns, data = records.flat(last.arrays)
    kind, number, run_id, before = last.kind, last.number, found.run_id, last.before
    if harm == "arrays":
        columns, data = records.flat({**last.arrays, "fitness": np.zeros(3)})
    elif harm == "state":
        state["mean"] = state["mean"] + 1
    elif harm == "kind":
        kind = "nothing"
    elif harm == "number":
        number += 1
    elif harm == "session":
        kind, number = "session", 10**12
        config = open_run(run).config.to_toml()
        texts_of = {"machine": "{}", "host": "x", "config": config}
        columns, data = records.flat(records.plain(dict.fromkeys(sessions.HASHED, 1) | texts_of))
    elif harm == "gap":
        before = records.START
    elif harm == "run":
        run_id = "1f" * 16
    crafted = records.make(run_id, kind, number, before, columns, data)
    beside = journal.path_of(run)
    beside.write_bytes(beside.read_bytes()[: -len(journal.encode(last, found.state))] + journal.encode(crafted, state))
    for command in ("sample", "resume", "repair"):
        code, line = refusal(command, run, *(["--count", 2] if command == "sample" else []))
        assert code == 3 and ("run.h5.journal is damaged" in line or "not copied at the same moment" in line), line
        if harm in ("state", "run"):
            break  # `resume` and `repair` continue from the record before


@pytest.mark.parametrize(
    ("source", "seen_by"),
    [("another run", ["verify", "resume", "export"]), ("another course of this run", ["verify", "resume"])],
)
def test_a_row_of_another_file_with_its_hashes_is_noticed(source: str, seen_by: list[str], made: Make) -> None:
    run, other = made(), made(name="other.h5")
    if source != "another run":
        shutil.copy(run, other)
        with edited(other) as file:
            file["generations/entropy"][2] += 1  # so that all later hashes differ
    with h5py.File(other) as theirs, h5py.File(run, "r+") as file:
        for name, dataset in file["generations"].items():
            if dataset.shape == theirs["generations"][name].shape and dataset.maxshape[0] is None:
                dataset[5] = theirs["generations"][name][5]
    for command in seen_by:
        more = {"resume": ["--generations", 8], "export": ["--csv"]}.get(command, [])
        code, line = refusal(command, run, *more)
        assert code == 3 and ("damaged" in line), (command, line)


def test_one_damaged_generation_is_named_and_the_others_stay_checkable(made: Make) -> None:
    run = made()
    with h5py.File(run, "r+") as file:
        file["generations/fitness"][2, 0] += 1
        file["generations/record_sha256"][4] = b"0" * 64
    with open_run(run) as opened:
        with pytest.raises(RunFileError, match="generation 2, 4 does not have the hash in it"):
            opened.check_all()
        for generation in (0, 1, 3, 5):
            opened.check_generation(generation)


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
    assert "another run" in info(run)["damage"] and "another run" in done("watch", run, "--once").stdout
    assert "run.h5.journal.other-run" in done("repair", run).stdout
    done("sample", run, "--count", 2, "--out", out)


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
    run, config, original = made(killed=True), tiny("interference-maxvar"), reader.open_hdf5

    def overwritten(path: Path) -> h5py.File:
        RunWriter.create(run, config, first_state(config).arrays(), overwrite=True).release()
        return original(path)

    monkeypatch.setattr(reader, "open_hdf5", overwritten)
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
    assert info(link)["generations"] == 4 and "4/6" in done("watch", link, "--once").stdout
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


@pytest.mark.parametrize("kind", ["loop", "fifo"])
def test_a_loop_of_links_and_a_fifo_are_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    path.symlink_to(path) if kind == "loop" else os.mkfifo(path)
    for words in (["info", path], ["resume", path], ["repair", path]):
        assert refusal(*words)[0] == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("final/mean", None),
        ("final/mean", np.zeros(3)),
        ("final/generation", np.zeros((2, 2))),
        ("generations/sign", np.zeros((6, 3), "i1")),
        ("generations/fitness_mean", None),
        ("sessions/machine", None),
        ("sessions/machine", np.array([b"{"])),
        ("started_from", "[1"),
        ("config", 7),
    ],
)
def test_missing_and_ill_shaped_parts_of_a_file_with_the_right_hashes_are_a_sentence(
    name: str, value: object, finished: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copy(finished, tmp_path / "run.h5"))
    with h5py.File(run, "r+") as file:
        if name in file.attrs:
            texts.put(file, {name: value})
        else:
            del file[name]
        if name not in file.attrs and value is not None:
            file[name] = value
        with contextlib.suppress(Exception):
            renew(file)
    for command in ("info", "resume", "report", "verify", "repair"):
        found = ees(command, run)
        if command == "repair" and "Returned to generation 0" in found.stdout:
            return  # from a state that does not have its hash to the one before it
        assert found.returncode == 3 and found.stderr.startswith("ees-mpi: ") and "Traceback" not in found.stderr, (
            command
        )


def test_a_repaired_file_of_a_killed_run_has_the_hashes_of_an_undisturbed_one(made: Make) -> None:
    run, whole = made(killed=True), made(name="whole.h5")
    repair(run)
    with open_run(run) as one, open_run(whole) as other:
        one.check_all()
        other.check_all()
        assert one["state_sha256"][:].tolist() == other["state_sha256"][:4].tolist()


def test_a_damaged_heap_of_texts_is_refused_by_every_command_and_hangs_none(tmp_path: Path) -> None:
    whole = gzip.decompress((TESTS / "data" / "format2" / "interference.h5.gz").read_bytes())
    run, place = tmp_path / "run.h5", whole.index(b"GCOL")
    objects = place + heaps.HEADER.size
    harms = {
        "zeroed block": whole[: place - 512] + bytes(4096) + whole[place + 3584 :],
        "size of the heap": whole[: place + 8] + b"\xff" * 8 + whole[place + 16 :],
        "size 0": whole[:objects] + bytes(heaps.OBJECT.size) + whole[objects + heaps.OBJECT.size :],
        "size that wraps": whole[: objects + 8] + (2**64 - 16).to_bytes(8, "little") + whole[objects + 16 :],
    }
    for harm, raw in harms.items():
        run.write_bytes(raw)
        for words in (["info", run], ["repair", run], ["resume", run], ["verify", run], ["config", run]):
            code, line = refusal(*words)
            assert code == 3 and "run.h5" in line, (harm, words, line)
        with pytest.raises(RunFileError, match="--overwrite does not replace it"):
            check_ours(run)


def test_repair_names_an_old_generation_that_is_damaged(finished: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    path.write_bytes(finished.read_bytes())
    with h5py.File(path, "r+") as file:
        file["generations/fitness"][1, 0] += 1
    before = path.read_bytes()
    code, line = refusal("export", path, "--csv", "-o", tmp_path / "out.csv")
    assert code == 3 and "generation 1 " in line and "says which generations are whole" in line
    said = done("repair", path).stdout
    assert "no journal to fold" in said and "generation 1: the data are damaged" in said
    assert path.read_bytes() == before
    done("resume", path, "--generations", 9)
