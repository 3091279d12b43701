"""A rank that dies: under ULFM the others go on, otherwise the job ends with a message. A rank that hangs is named."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from support.breaking import breaking
from support.processes import all_ended, committed, rank_processes, wait_for_text, wait_until
from support.program import CHECKOUT, MPIRUN, TIMEOUT, command, ees, environment, info, python, run, sets, train
from support.run_files import assert_same_bits

ULFM = ("--with-ft", "ulfm")
SELF_KILL = CHECKOUT / "tools" / "chaos_parts" / "self_kill.py"
SETTINGS = ("population.size=30", "run.generations=8", "run.stall_minutes=1", "run.fold_minutes=0.0001")


def dying(out: Path, ranks: int, *deaths: tuple[int, str, int], preset: str = "interference-maxent") -> list[str]:
    """Train with ranks that die in given instants, under ULFM; return the lines that were printed."""
    plan = [{"rank": rank, "where": where, "after": after} for rank, where, after in deaths]
    words = ["train", preset, *sets("noise.size=5000", *SETTINGS), "--out", out]
    done = run(python(SELF_KILL, *words, ranks=ranks, options=ULFM), EES_CHAOS=json.dumps(plan))
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("whole") / "whole.h5", "interference-maxent", *SETTINGS)


@pytest.mark.parametrize(
    ("deaths", "left"),
    [
        ([(2, "a gather", 30)], 3),
        ([(0, "a rollout", 20)], 3),
        ([(0, "a commit", 4), (1, "telling of a commit", 2)], 2),
        ([(0, "a fold", 2), (3, "a recovery", 1)], 2),
    ],
    ids=["another rank, in a gather", "rank 0, in a rollout", "two writers, in commits", "in a fold and its recovery"],
)
def test_the_ranks_that_are_left_end_with_the_same_bits(
    deaths: list[tuple[int, str, int]], left: int, undisturbed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run.h5"
    said = dying(out, 4, *deaths)
    lost = [line for line in said if line.startswith("lost ")]
    assert {int(rank) for line in lost for rank in re.findall(r"rank (\d) on", line)} == {rank for rank, _, _ in deaths}
    assert info(out)["ranks"] == left and info(out)["complete"] is True
    assert_same_bits(out, undisturbed)
    assert [path.name for path in tmp_path.iterdir()] == ["run.h5"]


def test_a_writer_that_dies_before_the_file_is_begun_is_replaced(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    said = dying(out, 3, (0, "a gather", 6))
    assert said[0].startswith("lost rank 0") and "generations 0 to 8 on 2 ranks" in said[1]
    assert_same_bits(out, undisturbed)


def test_rollouts_of_the_ranks_that_are_left_are_kept(tmp_path: Path) -> None:
    out, whole = tmp_path / "run.h5", tmp_path / "whole.h5"
    size = ("population.size=40", "run.generations=2")
    slow = ("task.settings.how=die", "task.settings.at=25", "task.settings.seconds=0.03")
    done = run(breaking(out, 3, *size, *slow, f'task.settings.mark="{tmp_path}/died"', ulfm=True))
    assert done.returncode == 0, done.stderr
    first = r"generations 0 to 2 on 2 ranks on 1 node, (\d+) rollouts of the first are already done"
    kept = re.search(first, done.stdout)
    assert kept and 10 <= int(kept.group(1)) < 40
    assert ees(*breaking(whole, 0, *size, "task.settings.how=none")[1:]).returncode == 0
    assert_same_bits(out, whole)


def test_a_command_that_cannot_continue_without_a_rank_says_so_once(undisturbed: Path, tmp_path: Path) -> None:
    words = ["sample", undisturbed, "--count", 30, "--out", tmp_path / "sample.h5"]
    plan = json.dumps([{"rank": 1, "where": "a gather", "after": 4}])  # a rollout may go to others, a gather never
    done = run(python(SELF_KILL, *words, ranks=3, options=ULFM), EES_CHAOS=plan)
    assert done.returncode == 1 and done.stderr.count("ees-mpi: other ranks died") == 1, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_a_task_ends_the_job_under_ulfm_too(tmp_path: Path) -> None:
    done = run(breaking(tmp_path / "run.h5", 3, "task.settings.how=raise", ulfm=True))
    assert done.returncode == 1 and done.stderr.count("evaluate() raised ZeroDivisionError") == 1
    assert all_ended(tmp_path / "run.h5")


def test_a_signal_under_ulfm_is_75_for_mpirun_too(tmp_path: Path) -> None:
    slow = ("task.settings.how=none", "task.settings.seconds=0.05", "run.generations=1000")
    words = breaking(tmp_path / "run.h5", 3, *slow, ulfm=True)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(rank_processes(tmp_path / "run.h5")[-1], signal.SIGTERM)
    errors = process.communicate(timeout=TIMEOUT)[1]
    assert process.returncode == 75 and errors.count("ees-mpi: interrupted") == 1


def test_without_ulfm_a_death_ends_the_job_and_is_told(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    dies = ("task.settings.how=die", "task.settings.at=25", f'task.settings.mark="{tmp_path}/died"')
    done = run(breaking(out, 3, *dies, "population.size=40"))
    assert done.returncode == 128 + signal.SIGKILL
    assert re.search(r"ees-mpi: rank \d on \S+ died, and this MPI ends the job. All committed", done.stderr)
    assert all_ended(out)


@pytest.mark.parametrize(("ranks", "ulfm"), [(0, False), (3, False), (3, True)], ids=["alone", "mpirun", "ulfm"])
def test_a_rank_that_hangs_is_named_with_its_individual_and_ends_the_job(
    ranks: int, ulfm: bool, tmp_path: Path
) -> None:
    out = tmp_path / "run.h5"
    hangs = ("task.settings.how=hang", "task.settings.at=7", "run.stall_minutes=0.06")
    done = run(breaking(out, ranks, *hangs, ulfm=ulfm))
    assert done.returncode == 1
    named = r"ees-mpi: rank \d on \S+ has made no progress for 0.06\S* minutes .* at individual 7 of generation 0"
    assert len(re.findall(named, done.stderr)) == 1
    assert all_ended(out)


@pytest.mark.parametrize("ulfm", [False, True])
def test_a_stopped_process_is_named_even_if_it_is_the_writer(ulfm: bool, tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    slow = ("task.settings.how=none", "task.settings.seconds=0.02", "run.generations=1000", "run.stall_minutes=0.1")
    words = breaking(out, 3, *slow, ulfm=ulfm)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    writer = json.loads(wait_for_text(Path(f"{out}.lock")))["pid"]
    wait_until(lambda: committed(out))  # the ranks watch each other from the first generation on
    os.kill(writer, signal.SIGSTOP)
    errors = process.communicate(timeout=TIMEOUT)[1]
    assert process.returncode == 1 and re.search(r"ees-mpi: rank 0 on \S+ has made no progress", errors), errors
    assert all_ended(out)


@pytest.mark.parametrize(
    ("options", "verdict"),
    [((), "the other ranks would continue"), (ULFM, "the other ranks continue without it")],
    ids=["mpirun", "ulfm"],
)
def test_doctor_finds_two_ranks_well_and_says_what_happens_if_one_is_lost(
    options: tuple[str, ...], verdict: str
) -> None:
    done = run([MPIRUN, *options, "-n", "2", *command("doctor")])
    assert done.returncode == 0 and verdict in done.stdout, done.stdout
    assert "bad " not in done.stdout and "one BLAS thread" in done.stdout
