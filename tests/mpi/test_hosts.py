"""Several nodes: one noise table each, and the same bits as one rank."""

from pathlib import Path

import pytest
from conftest import ees, info
from hosts import hosts, mpirun, why_not
from runfiles import assert_same_bits

PROGRAMS = Path(__file__).parent / "programs.py"
SETTINGS = [
    "population.size=12",
    "task.steps=20",
    "noise.size=300000",
    "run.generations=3",
    "task.observation_share=0.5",
]
SETS = [word for setting in SETTINGS for word in ("--set", setting)]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> object:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("hosts")
    with hosts(3, folder) as names:
        yield names, folder


def test_each_host_holds_one_noise_table(three: tuple[list[str], Path]) -> None:
    names, folder = three
    done = mpirun(names, 2, folder, PROGRAMS, "one_table_per_node")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "3 nodes of 2 ranks, 3 tables"


def test_gathers_cross_hosts_in_order(three: tuple[list[str], Path]) -> None:
    names, folder = three
    done = mpirun(names, 2, folder, PROGRAMS, "gathers")
    assert done.returncode == 0 and done.stdout.strip() == "ok", done.stderr


def test_three_hosts_of_two_ranks_give_the_bits_of_one_rank(three: tuple[list[str], Path], tmp_path: Path) -> None:
    names, folder = three
    out, alone = tmp_path / "three.h5", tmp_path / "alone.h5"
    done = mpirun(names, 2, folder, "-m", "ees_mpi", "train", "ant-maxent", *SETS, "--out", out)
    assert done.returncode == 0, done.stderr
    assert ees("train", "ant-maxent", *SETS, "--out", alone).returncode == 0
    assert_same_bits(out, alone)
    assert (info(out)["ranks"], info(out)["nodes"]) == (6, 3)
