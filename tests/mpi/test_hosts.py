"""Several nodes: one noise table each, the same bits as one rank, and ranks of other hosts that die or hang."""

import json
import re
from pathlib import Path

import pytest
from conftest import ees, info
from hosts import hosts, mpirun, why_not
from runfiles import assert_same_bits
from test_failures import breaking
from test_lost_ranks import VICTIM

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


def test_ranks_that_die_on_several_hosts_do_not_show_in_the_bits(three: tuple[list[str], Path], tmp_path: Path) -> None:
    names, folder = three
    out, alone = tmp_path / "three.h5", tmp_path / "alone.h5"
    sets = [*SETS, "--set", "run.stall_minutes=1"]
    # The writer, in the middle of a commit, and then a whole host.
    deaths = [(0, "a commit", 3), (4, "a rollout", 9), (5, "a rollout", 9)]
    plan = json.dumps([{"rank": rank, "where": where, "after": after} for rank, where, after in deaths])
    words = [VICTIM, "train", "ant-maxent", *sets, "--out", out]
    done = mpirun(names, 2, folder, *words, options=["--with-ft", "ulfm"], EES_CHAOS=plan)
    assert done.returncode == 0, done.stderr
    assert "lost rank 0 on eesh1" in done.stdout and "rank 4 on eesh3" in done.stdout
    assert (info(out)["ranks"], info(out)["nodes"]) == (3, 2)
    assert ees("train", "ant-maxent", *SETS, "--out", alone).returncode == 0
    assert_same_bits(out, alone)


@pytest.mark.parametrize("options", [[], ["--with-ft", "ulfm"]], ids=["plain", "ulfm"])
@pytest.mark.parametrize(("individual", "host"), [(7, "eesh1"), (15, "eesh2")])
def test_the_only_rank_of_a_host_hangs_and_is_named(
    individual: int, host: str, options: list[str], three: tuple[list[str], Path], tmp_path: Path
) -> None:
    names, folder = three
    settings = ("task.how=hang", f"task.at={individual}", "task.seconds=0.02", "run.stall_minutes=0.05")
    words = breaking(tmp_path / "run.h5", 2, *settings)[4:]
    done = mpirun(names[:2], 1, folder, *words, options=options)
    assert done.returncode not in (0, 2, 3, 75)
    named = rf"rank \d on {host} has made no progress .* at individual {individual} of generation 0"
    assert re.search(named, done.stderr), done.stderr
