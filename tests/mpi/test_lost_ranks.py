"""A rank that dies: under ULFM the others go on, else the job ends in words; and one that hangs is named."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, ees, environment, info, train
from runfiles import assert_same_bits
from test_failures import breaking, ours, rank_pids

VICTIM = Path(__file__).parents[2] / "tools" / "disturbances" / "victim.py"
SETTINGS = ("population.size=30", "run.generations=8", "run.stall_minutes=1", "run.fold_minutes=0.0001")


def dying(out: Path, ranks: int, *deaths: tuple[int, str, int], preset: str = "interference-maxent") -> list[str]:
    """Train with ranks that die in given instants, under ULFM; return what was said."""
    plan = [{"rank": rank, "where": where, "after": after} for rank, where, after in deaths]
    words = [str(BIN / "mpirun"), "--with-ft", "ulfm", "-n", str(ranks), sys.executable, str(VICTIM)]
    words += ["train", preset, "--set", "noise.size=5000", "--out", str(out)]
    for setting in SETTINGS:
        words += ["--set", setting]
    env = environment(EES_CHAOS=json.dumps(plan))
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, env=env)
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
    slow = ('task.how="die"', "task.at=25", "task.seconds=0.03", "population.size=40", "run.generations=2")
    words = breaking(out, 3, *slow, f'task.mark="{tmp_path}/died"')
    done = subprocess.run(ulfm(words), capture_output=True, text=True, timeout=60, env=environment())
    assert done.returncode == 0, done.stderr
    kept = re.search(r"generations 0 to 2 on 2 ranks on 1 node, (\d+) rollouts of the first done already", done.stdout)
    assert kept and 10 <= int(kept.group(1)) < 40
    words = breaking(whole, 2, *slow, f'task.mark="{tmp_path}/died"')  # it dies once
    subprocess.run(words, check=True, capture_output=True, timeout=60, env=environment())
    assert_same_bits(out, whole)


def ulfm(words: list[str]) -> list[str]:
    return [words[0], "--with-ft", "ulfm", *words[1:]]


@pytest.mark.parametrize("survivable", [False, True])
def test_an_error_in_a_task_is_not_survived(survivable: bool, tmp_path: Path) -> None:
    words = breaking(tmp_path / "run.h5", 3, 'task.how="raise"')
    words = ulfm(words) if survivable else words
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment())
    assert done.returncode not in (0, 2, 3, 75) and done.stderr.count("Traceback") == 1
    assert ours(str(tmp_path / "run.h5")) == []


def test_a_signal_under_ulfm_is_75_for_mpirun_too(tmp_path: Path) -> None:
    words = ulfm(breaking(tmp_path / "run.h5", 3, 'task.how="none"', "task.seconds=0.05", "run.generations=1000"))
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    process.stdout.readline()
    os.kill(rank_pids(tmp_path / "run.h5")[-1], signal.SIGTERM)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 75 and errors.count("ees-mpi: interrupted") == 1


def test_without_ulfm_a_death_ends_the_job_and_is_told(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    words = breaking(out, 3, 'task.how="die"', "task.at=25", f'task.mark="{tmp_path}/died"', "population.size=40")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment())
    assert done.returncode == 128 + signal.SIGKILL
    assert re.search(r"ees-mpi: rank \d on \S+ died, and this MPI ends the job. All committed", done.stderr)
    assert ours(str(out)) == []


@pytest.mark.parametrize("launcher", ["alone", "mpirun", "ulfm"])
def test_a_rank_that_hangs_is_named_with_its_individual_and_ends_the_job(launcher: str, tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    words = breaking(out, 3, 'task.how="hang"', "task.at=7", "run.stall_minutes=0.03")
    words = {"alone": words[3:], "mpirun": words, "ulfm": ulfm(words)}[launcher]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment())
    assert done.returncode == 1
    named = r"ees-mpi: rank \d on \S+ has made no progress for 0.03\S* minutes .* at individual 7 of generation 0"
    assert len(re.findall(named, done.stderr)) == 1
    assert ours(str(out)) == []


@pytest.mark.parametrize("survivable", [False, True])
def test_a_stopped_process_is_named_even_if_it_is_the_writer(survivable: bool, tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    slow = ('task.how="none"', "task.seconds=0.02", "run.generations=1000", "run.stall_minutes=0.05")
    words = breaking(out, 3, *slow)
    words = ulfm(words) if survivable else words
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    writer = json.loads(started(Path(f"{out}.lock")))["pid"]
    process.stdout.readline()
    os.kill(writer, signal.SIGSTOP)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 1 and re.search(r"ees-mpi: rank 0 on \S+ has made no progress", errors)
    assert ours(str(out)) == []


def started(path: Path) -> str:
    """Wait for a file with something in it, and read it."""
    deadline = time.monotonic() + 30
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return path.read_text()


def test_doctor_says_what_becomes_of_a_lost_rank() -> None:
    assert "the others would go on" in ees("doctor", ranks=2).stdout
    words = ulfm([str(BIN / "mpirun"), "-n", "2", str(BIN / "ees-mpi"), "doctor"])
    done: Any = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment())
    assert "the ranks that are left go on without it" in done.stdout
