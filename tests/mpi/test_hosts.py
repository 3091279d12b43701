"""Several nodes: one noise table each, the same bits as one rank, and ranks of other hosts that die or hang."""

import json
from pathlib import Path

import pytest
from support.breaking import breaking
from support.hosts import hosts, mpirun, why_not
from support.program import CHECKOUT, TESTS, ees, info, sets
from support.run_files import assert_same_bits

SELF_KILL = CHECKOUT / "tools" / "chaos_parts" / "self_kill.py"
PROGRAMS = TESTS / "support" / "rank_programs.py"
SMALL = ("population.size=12", "task.steps=20", "noise.size=300000", "run.generations=3", "task.observation_share=0.5")
SETS = sets(*SMALL, "run.stall_minutes=2")  # ranks that wait in vain for a dead one end before mpirun's patience does


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> object:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("hosts")
    with hosts(3, folder) as names:
        yield names, folder


@pytest.mark.slow
def test_each_host_holds_one_noise_table_and_gathers_cross_hosts_in_order(three: tuple[list[str], Path]) -> None:
    names, folder = three
    programs = (PROGRAMS, "one_table_per_node", "gathers")
    done = mpirun(names, 2, folder, *programs, options=["--map-by", "node"])  # hosts in turn
    assert done.returncode == 0 and done.stdout.splitlines() == ["3 nodes of 2 ranks, 3 tables", "ok"], done.stderr


@pytest.mark.slow
def test_three_hosts_of_two_ranks_give_the_bits_of_one_rank_also_after_a_rank_of_the_last_host_died(
    three: tuple[list[str], Path], tmp_path: Path
) -> None:
    names, folder = three
    out, alone = tmp_path / "three.h5", tmp_path / "alone.h5"
    assert ees("train", "ant-maxent", *SETS, "--out", alone).returncode == 0
    words = ["train", "ant-maxent", *SETS, "--out", out, "--resume"]
    plan = json.dumps([{"rank": 4, "where": "a rollout", "after": 3}])  # a rank of the last host
    killed = mpirun(names, 2, folder, SELF_KILL, *words, EES_CHAOS=plan)
    assert killed.returncode != 0, killed.stdout
    done = mpirun(names, 2, folder, "-m", "ees_mpi", *words)
    assert done.returncode == 0, done.stderr
    assert_same_bits(out, alone)
    assert (info(out)["ranks"], info(out)["nodes"]) == (6, 3)


@pytest.mark.slow
def test_the_doctor_looks_at_every_host(three: tuple[list[str], Path]) -> None:
    names, folder = three
    done = mpirun(names, 1, folder, "-m", "ees_mpi", "doctor", "interference-maxent")
    assert done.returncode == 0, done.stderr
    assert "3 ranks on 3 nodes, 1 on this one" in done.stdout
    for subject in ("cores", "memory", "shared memory", "file system", "file locks"):
        (line,) = (line for line in done.stdout.splitlines() if line[6:].startswith(f"{subject}  "))
        assert line.startswith("ok ") and "on all 3 nodes" in line, line


@pytest.mark.slow
def test_the_only_rank_of_a_host_hangs_and_its_stack_is_shown(three: tuple[list[str], Path], tmp_path: Path) -> None:
    names, folder = three
    settings = ("task.settings.how=hang", "task.settings.at=15", "task.settings.seconds=0.02")
    words = breaking(tmp_path / "run.h5", 0, *settings, "run.stall_minutes=0.1")
    done = mpirun(names[:2], 1, folder, *words)
    assert done.returncode not in (0, 2, 3, 75)
    assert done.stderr.count("Timeout (") == 1 and "breaking.py" in done.stderr, done.stderr
