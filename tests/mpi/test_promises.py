"""The promises of a job on several ranks: it never hangs, a stop saves the state, and no process stays behind.

`run.stall_minutes` is short here. A rank that waits gives the others 10 s more than that.
"""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from support.breaking import breaking
from support.processes import all_ended, committed, rank_processes, wait_for_text, wait_until
from support.program import BIN, MPIRUN, TIMEOUT, TINY, command, ees, environment, info, run, sets, train
from support.run_files import assert_same_bits

SHORT = "run.stall_minutes=0.1"


def start(words: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())


@pytest.mark.slow  # the rank loops in Python; sleeps in C and holds the GIL; test_hosts.py: it sleeps
@pytest.mark.parametrize(("how", "ranks"), [("loop", 0), ("lock", 3)])
def test_a_rank_that_stands_still_ends_the_job_with_its_stack(how: str, ranks: int, tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    ended = run(breaking(out, ranks, f"task.settings.how={how}", "task.settings.at=7", SHORT))
    assert ended.returncode == 1 and all_ended(out), ended.stderr
    assert ended.stderr.count("Timeout (") == 1 and "breaking.py" in ended.stderr, ended.stderr  # the culprit's stack
    assert ees(*breaking(out, 0, "task.settings.how=none")[1:], "--resume").returncode == 0
    assert_same_bits(out, whole(tmp_path))


def whole(folder: Path) -> Path:
    out = folder / "whole.h5"
    assert ees(*breaking(out, 0, "task.settings.how=none")[1:]).returncode == 0
    return out


@pytest.mark.slow
def test_a_stopped_rank_ends_the_job(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    slow = ("task.settings.how=none", "task.settings.seconds=0.02", "run.generations=1000", "run.stall_minutes=0.1")
    process = start(breaking(out, 3, *slow))
    wait_until(lambda: process.poll() is not None or committed(out))
    writer = json.loads(wait_for_text(Path(f"{out}.lock")))["pid"]
    os.kill(writer, signal.SIGSTOP)  # the others wait in a gather
    errors = process.communicate(timeout=TIMEOUT)[1]
    assert process.returncode == 1 and all_ended(out), errors
    said, stacks = errors.count("run.stall_minutes"), errors.count("Timeout (")  # a stack: the others are in a gather
    assert said <= 1 and said + stacks >= 1 and stacks < 3, errors


@pytest.mark.slow
def test_a_lost_rank_ends_the_job_and_resume_ends_with_the_same_bits(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    dies = ("task.settings.how=die", "task.settings.at=7", f'task.settings.mark="{tmp_path}/died"')
    killed = run(breaking(out, 3, *dies))
    assert killed.returncode == 128 + signal.SIGKILL and all_ended(out), killed.stderr
    resumed = run([*breaking(out, 2, "task.settings.how=none"), "--resume"])
    assert resumed.returncode == 0, resumed.stderr
    assert_same_bits(out, whole(tmp_path))


@pytest.mark.slow
def test_a_rank_that_never_starts_mpi_ends_the_job_within_the_limit() -> None:
    option = "--start-minutes 0.051"  # no other test has it: the processes are found by it
    words = f'[ "$OMPI_COMM_WORLD_RANK" = 1 ] && sleep 600; exec {BIN}/ees-mpi doctor {option}'
    ended = run([MPIRUN, "-n", "3", "/bin/sh", "-c", words])
    assert ended.returncode != 0 and all_ended(option), ended.stderr


@pytest.mark.slow
def test_no_rank_outlives_a_killed_mpirun(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    process = start(breaking(out, 3, "task.settings.how=hang", "task.settings.at=7"))
    wait_until(lambda: process.poll() is not None or committed(out) or out.exists())
    process.kill()
    process.communicate(timeout=TIMEOUT)
    assert all_ended(out)


def training(out: Path, ranks: int) -> "subprocess.Popen[str]":
    """Start a long run, and wait until it has committed some generations."""
    words = command("train", "interference-maxvar", *sets(*TINY, "run.generations=50000"), "--out", out, ranks=ranks)
    process = start(words)
    wait_until(lambda: process.poll() is not None or committed(out))
    return process


@pytest.mark.slow
def test_a_signal_to_one_rank_saves_the_state_and_leaves_with_75(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    process = training(out, 3)
    os.kill(rank_processes(out)[-1], signal.SIGTERM)
    said, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 75, errors + said
    assert errors.count("ees-mpi: interrupted") == 1 and all_ended(out)
    assert [path.name for path in tmp_path.iterdir()] == ["run.h5"]
    kept = int(str(info(out)["generations"]))
    assert kept > 0 and ees("resume", out, "--generations", kept + 3).returncode == 0
    assert_same_bits(out, train(tmp_path / "whole.h5", "interference-maxvar", f"run.generations={kept + 3}"))


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "how"), [(3, "signal"), (0, "limit")])
def test_a_stop_in_a_long_generation_does_not_wait_for_its_end(ranks: int, how: str, tmp_path: Path) -> None:
    """Without the stop a generation takes minutes; it is lost, and begins again with `resume`."""
    out, mark = tmp_path / "run.h5", tmp_path / "waits"
    slow = ("task.settings.how=mark", "task.settings.at=0", "task.settings.seconds=0.5", f'task.settings.mark="{mark}"')
    size = ("population.size=2000", "run.generations=2", "noise.size=5000")
    process = start([*breaking(out, ranks, *size, *slow), *(["--max-hours", "0.001"] if how == "limit" else [])])
    wait_for_text(mark)  # the first rollouts have begun
    if how == "signal":
        for pid in rank_processes(out):
            os.kill(pid, signal.SIGUSR1)
    errors = process.communicate(timeout=TIMEOUT)[1]
    assert process.returncode == 75 and all_ended(out), errors
    assert len(re.findall("ees-mpi: interrupted by .*0 generations .*saved", errors)) == 1, errors
    assert info(out)["generations"] == 0
