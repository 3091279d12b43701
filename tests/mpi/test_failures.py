"""An error on one rank ends the job on all of them, with one readable message, and leaves no process behind."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from support.breaking import breaking
from support.processes import all_ended, committed, wait_until
from support.program import TIMEOUT, TINY, command, ees, environment, info, run, sets

from ees_mpi import open_run
from ees_mpi.store import lock


def start(words: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())


@pytest.mark.slow
def test_a_rank_that_leaves_without_an_error_ends_the_job_too(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    done = run(breaking(out, 3, "task.settings.how=leave"))
    assert done.returncode not in (0, 2, 3, 75)
    assert done.stderr.count("failed and ends the job") == 1 and all_ended(out)


def test_an_exception_in_a_task_ends_the_job_with_the_lines_of_the_task(tmp_path: Path) -> None:
    out, error = tmp_path / "run.h5", "BrokenPipeError"  # not taken for the end of our own output
    done = run(breaking(out, 2, 'task.settings.how="broken pipe"'))
    where = "ees-mpi: generation 0, individual 3: task.function support.breaking:Breaking: evaluate() raised "
    assert done.returncode == 1 and done.stderr.count(f"{where}{error}") == 1
    lines = [line for line in done.stderr.splitlines() if ", line " in line]
    assert len(lines) == 1 and lines[0].endswith("in evaluate") and "Traceback" not in done.stderr
    assert f"    raise {error}" in done.stderr
    assert all_ended(out)


@pytest.mark.slow
def test_a_rank_that_ends_without_a_message_ends_the_job(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    done = run(breaking(out, 4, "task.settings.how=exit"))
    assert done.returncode != 0 and all_ended(out)
    with open_run(out) as opened:
        assert opened.generations == 0


@pytest.mark.parametrize("how", ["nan", "false nan"])  # called invalid by the task; called valid by mistake
def test_an_invalid_rollout_is_left_out_counted_and_verified(how: str, tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    done = ees(*breaking(out, 0, f'task.settings.how="{how}"', "task.deterministic=true")[1:])
    assert done.returncode == 0 and "5.0% invalid" in done.stdout, done.stderr
    again = ees("verify", out, "--individuals", "20")
    assert again.returncode == 0 and "60 individuals" in again.stdout, again.stderr  # including the invalid one


def training(out: Path, ranks: int) -> "subprocess.Popen[str]":
    """Start a long run, and wait until it has committed some generations."""
    words = command("train", "interference-maxvar", *sets(*TINY, "run.generations=50000"), "--out", out, ranks=ranks)
    process = start(words)
    wait_until(lambda: process.poll() is not None or committed(out))
    return process


@pytest.mark.slow
def test_a_second_writer_is_exit_3_and_told_who_the_first_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "WAIT_SECONDS", 0.2)  # seconds
    out = tmp_path / "run.h5"
    process = training(out, 2)
    holder = json.loads(Path(f"{out}.lock").read_text())["pid"]
    for words in (("train", "interference-maxvar", "--out", out, "--overwrite"), ("resume", out)):
        done = ees(*words)
        assert done.returncode == 3 and f"is being written by process {holder} on" in done.stderr
    assert info(out)["complete"] is False  # it is read while it runs
    os.kill(holder, signal.SIGTERM)
    process.communicate(timeout=TIMEOUT)
    assert process.returncode == 75


@pytest.mark.slow
def test_ctrl_c_at_mpirun_ends_the_job_and_keeps_the_file(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    process = training(out, 2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode != 0 and "Traceback" not in errors and all_ended(out)
    with open_run(out) as run:
        run.check_last()


@pytest.mark.slow
def test_a_second_ctrl_c_at_the_ranks_ends_the_job_at_once_with_one_sentence(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    ended = run(breaking(out, 2, 'task.settings.how="ctrl-c twice"'))
    assert ended.returncode == 130 and "Traceback" not in ended.stderr, ended.stderr
    twice = "ees-mpi: interrupted twice; the job ends at once. All committed generations are safe"
    assert ended.stderr.count(twice) == 1, ended.stderr
    assert all_ended(out) and info(out)["generations"] == 0
