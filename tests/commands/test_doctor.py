"""The findings of the doctor, on nodes that were made up; tests/mpi and tests/matrix run it on ranks."""

import fcntl
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.program import done, refusal

from ees_mpi import memory
from ees_mpi.commands import doctor
from ees_mpi.ranks import Ranks


def ranks_on(host: str, cores: Sequence[Sequence[str]], domains: int = 1) -> list[doctor.Facts]:
    """Return ranks of a node with two NUMA domains; cores: of each rank, each with two hardware threads."""
    return [
        {"host": host, "cores": mine, "threads": 2 * len(mine), "domains": domains, "node domains": 2} for mine in cores
    ]


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        ([["0"], ["1"]], None),
        ([["0", "1"], ["0", "1"]], None),
        ([["0"], ["0"]], (2, 1)),
        ([["0", "1"], ["0"], ["1"]], (3, 2)),
        ([["0", "1"], ["0"], ["2"], ["2", "3"]], None),
    ],
)
def test_ranks_are_a_crowd_if_there_is_no_core_for_each(
    cores: list[list[str]], expected: tuple[int, int] | None
) -> None:
    assert doctor.crowd([frozenset(mine) for mine in cores]) == expected


def test_what_is_the_same_on_all_nodes_is_one_line_and_the_others_are_named() -> None:
    good = [*ranks_on("a", [["0"], ["1"]]), *ranks_on("b", [["0"], ["1"]])]
    cores, numa = doctor._cores(good)
    assert cores[0] == "ok" and cores[2].endswith("1 core with 2 hardware threads on all 2 nodes")
    assert numa == ("ok", "NUMA", "a rank may use 1 of 2 NUMA domains on all 2 nodes")
    fine, bad, kept, moves = doctor._cores([*good, *ranks_on("c", [["3"], ["3"]], domains=2)])
    assert fine[0] == "ok" and "on a, b" in fine[2] and kept[0] == "ok"
    assert bad[0] == "bad" and "2 ranks share 1 core on c; start one rank per core" in bad[2]
    assert moves[0] == "note" and "2 of 2 NUMA domains on c" in moves[2]


def test_the_memory_of_a_preset_is_compared_with_that_of_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    large = {"host": "a", "memory": 4 << 30, "limit": "enough", "shm": 2 << 30}
    small = {"host": "b", "memory": 1 << 30, "limit": "the cgroup allows it", "shm": 1 << 29}
    findings = [*doctor._memory([large, small], [large, small], "ant-maxent")]
    assert [verdict for verdict, *_ in findings] == ["ok", "bad", "ok", "bad"]
    assert "1024 MiB are left on b: the cgroup allows it" in findings[1][2]
    assert "512 MiB are free on b; set noise.size to at most 134217728" in findings[3][2]
    assert {verdict for verdict, *_ in doctor._memory([small], [small], None)} == {"note"}


def test_a_lock_is_seen_where_the_file_system_passes_it_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with doctor.locked_file(Ranks()) as (name, problem):
        path = Path(name)
        assert not problem and doctor.seen_lock(path) == "held"
    assert doctor.seen_lock(path) == "No such file or directory" and not [*tmp_path.iterdir()]
    path.touch()
    assert doctor.seen_lock(path) == "free"


def refused(*arguments: object) -> None:
    raise OSError(95, "Operation not supported")


def test_a_file_system_without_locks_is_told_and_one_that_keeps_them_to_a_node_is_bad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = [{"host": host, "file system": "nfs4", "lock": seen} for host, seen in {"a": "held", "b": "free"}.items()]
    lines = {(verdict, subject): said for verdict, subject, said in doctor._files(nodes, "file", "")}
    assert "nfs4 on all 2 nodes" in lines["ok", "file system"]
    assert "is seen on a" in lines["ok", "file locks"] and "on b is not seen" in lines["bad", "file locks"]
    monkeypatch.setattr(fcntl, "flock", refused)
    with doctor.locked_file(Ranks()) as (_, problem):
        assert problem == "Operation not supported"


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
    monkeypatch.setattr(memory, "left", lambda: (1 << 20, "there is no more"))
    code, said = refusal("doctor", "interference-maxent")
    assert code == 1 and "marked bad" in said
