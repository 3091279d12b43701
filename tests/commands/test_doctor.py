"""The findings of the doctor, on nodes that were made up; tests/mpi and tests/matrix run it on ranks."""

import fcntl
import os
from pathlib import Path

import h5py
import pytest
from support.program import done, ees, refusal

from ees_mpi import memory
from ees_mpi.commands import doctor
from ees_mpi.ranks import Ranks


@pytest.mark.parametrize(
    ("cores", "said"),
    [
        ([["0"], ["1"]], "2 ranks on 2 cores; each may use 1 core with 2 hardware threads"),
        ([["0", "1"], ["0", "1"]], "2 ranks on 2 cores; each may use 2 cores"),
        ([["0"], ["0"]], "2 ranks share 1 core; start one rank per core"),
        ([["0", "1"], ["0"], ["1"]], "3 ranks share 2 cores"),
        ([["0", "1"], ["0"], ["2"], ["2", "3"]], "4 ranks on 4 cores"),
    ],
)
def test_ranks_are_too_many_if_there_is_no_core_for_each(cores: list[list[str]], said: str) -> None:
    verdict, _, found = doctor._cores([frozenset(mine) for mine in cores], 2)
    assert verdict == ("bad" if "share" in said else "ok") and found.startswith(said)


def test_what_is_the_same_on_all_nodes_is_one_line_and_the_others_are_named() -> None:
    good, bad = ("ok", "cores", "enough"), ("bad", "cores", "too few")
    assert [*doctor.merged([("a", [good])])] == [good]
    assert [said for _, _, said in doctor.merged([("a", [good]), ("b", [good])])] == ["enough (on all 2 nodes)"]
    found = [*doctor.merged([("a", [good]), ("b", [good]), ("c", [bad])])]
    assert found == [("ok", "cores", "enough (on a, b)"), ("bad", "cores", "too few (on c)")]


def test_the_memory_of_a_preset_is_compared_with_that_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(source: str | None, room: int, free: int) -> list[doctor.Finding]:
        monkeypatch.setattr(memory, "left", lambda: (room, "the cgroup allows it"))
        monkeypatch.setattr(memory, "free_space", lambda folder: free)
        findings = doctor.of_node([doctor.place()], doctor.needed(source))
        return [finding for finding in findings if "memory" in finding[1]]

    assert [verdict for verdict, *_ in found("ant-maxent", 4 << 30, 2 << 30)] == ["ok", "ok"]
    node, table = found("ant-maxent", 1 << 30, 1 << 29)
    assert node[0] == table[0] == "bad" and "1024 MiB are left: the cgroup allows it" in node[2]
    assert "511 MiB are left for it; set noise.size to at most 133955584" in table[2]
    assert {verdict for verdict, *_ in found(None, 1 << 30, 1 << 29)} == {"note"}


def refused(*arguments: object) -> None:
    raise OSError(95, "Operation not supported")


def test_a_lock_is_seen_where_the_file_system_passes_it_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with doctor.locked_file(Ranks()) as (name, problem):
        assert not problem and [verdict for verdict, *_ in doctor.files_of_node(name)] == ["ok", "ok"]
    assert not [*tmp_path.iterdir()]
    assert "cannot be opened: No such file" in [*doctor.files_of_node(name)][1][2]
    (tmp_path / name).touch()
    kind, lock = doctor.files_of_node(name)
    assert kind[0] == "ok" and lock[0] == "bad" and "is not seen, so that two jobs could write one file" in lock[2]
    monkeypatch.setattr(fcntl, "flock", refused)
    with doctor.locked_file(Ranks()) as (name, problem):
        assert name and problem == "Operation not supported"


def test_a_full_disk_is_told_as_a_bad_folder_and_a_bad_run_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "posix_fallocate", full)
    failed = ees("doctor", "--run")
    assert failed.returncode == 1 and failed.stdout.startswith("bad "), failed.stdout
    assert h5py.version.hdf5_version in failed.stdout and "No space left" in failed.stdout
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(os, "fsync", full)
    assert list(doctor._folder("file", "")) == [("bad", "this folder", "cannot be written: No space left on device")]


def test_the_type_of_a_file_system_is_that_of_the_nearest_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "self").mkdir()
    lines = (
        "1 0 8:1 / / rw - ext4 /dev/sda rw",
        "2 1 0:5 / /scratch rw shared:1 - lustre mgs:/scratch rw",
        r"3 1 0:6 / /my\040home rw - nfs4 server:/home rw",
    )
    (tmp_path / "self/mountinfo").write_text("\n".join(lines))
    monkeypatch.setattr(doctor, "PROC", tmp_path)
    found = {folder: doctor.file_system(Path(folder)) for folder in ("/scratch/me", "/scratches", "/my home/x")}
    assert found == {"/scratch/me": "lustre", "/scratches": "ext4", "/my home/x": "nfs4"}


def test_the_cores_of_this_process_are_told_by_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for cpu, core, domain in ((0, "0,2", 0), (1, "1,3", 1), (2, "0,2", 0)):
        topology = tmp_path / f"cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{core}\n")
        (topology.parent / f"node{domain}").mkdir()
    monkeypatch.setattr(doctor, "SYSTEM", tmp_path)
    monkeypatch.setattr(doctor.os, "sched_getaffinity", lambda process: {0, 1, 2})
    found = doctor.place()
    assert (found["cores"], found["threads"], found["domains"]) == (["0,2", "1,3"], 3, 2)


def test_other_bits_are_bad_unless_they_are_those_of_another_numpy_or_cpu() -> None:
    here = {"numpy": "2.4.6", "cpu_features": "X86_V2 X86_V3"}
    assert doctor.compared(doctor.DIGEST, {**here, "numpy": "3.0"})[0] == "ok"
    assert doctor.compared("0", here)[0] == "bad" and doctor.DIGEST in doctor.compared("0", here)[2]
    assert doctor.compared("0", {**here, "numpy": "2.5.0"})[0] == "note"
    assert doctor.compared("0", {**here, "cpu_features": "NEON"})[0] == "note"


def test_the_bits_are_those_that_are_noted_and_a_preset_that_does_not_fit_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = done("doctor", "interference-maxent").stdout
    assert "bad " not in said and doctor.DIGEST in said and not [*tmp_path.iterdir()]
    assert [line.split()[1] for line in done("doctor", "--run").stdout.splitlines()] == ["run", "bits"]
    monkeypatch.setattr(memory, "left", lambda: (1 << 20, "there is no more"))
    code, said = refusal("doctor", "interference-maxent")
    assert code == 1 and "marked bad" in said
