"""What goes wrong on one rank ends the job on all of them, in words, with nothing left running."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import pytest
from conftest import BIN, command, ees, environment, info, train
from runfiles import assert_same_bits

TESTS = Path(__file__).parents[1]


def breaking(out: Path, ranks: int, *settings: str) -> list[str]:
    sets = [
        "task.name=breaking",
        "population.size=20",
        "run.generations=5",
        "noise.size=100",
        *settings,
    ]
    config = out.with_suffix(".toml")
    config.write_text(
        '[run]\ngenerations=1\n[task]\nname="breaking"\n[population]\nname="normal"\nsize=2\nstd=0.5\n'
        '[objective]\nname="maxvar"\n[optimizer]\nname="ascent"\nlr=0.03\n[noise]\nsize=100\n'
    )
    words = [sys.executable, str(TESTS / "run_breaking.py"), "train", str(config), "--out", str(out)]
    for setting in sets:
        words += ["--set", setting]
    return [str(BIN / "mpirun"), "-n", str(ranks), *words]


def ours(mark: str) -> list[int]:
    """The processes whose command line has a mark."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and mark.encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("how", ["leave", "broken pipe", "keyboard"])
def test_a_rank_that_just_leaves_ends_the_job_too(how: str, tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    words = breaking(out, 3, f'task.how="{how}"')
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment())
    assert done.returncode not in (0, 2, 3, 75)
    assert done.stderr.count("failed and ends the job") == 1 and ours(str(out)) == []


def test_numbers_that_are_not_finite_are_left_out_even_if_the_task_calls_them_valid(tmp_path: Path) -> None:
    words = breaking(tmp_path / "run.h5", 2, 'task.how="false nan"')
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment())
    assert done.returncode == 0 and "5.0% invalid" in done.stdout, done.stderr


@pytest.mark.parametrize("how", ["raise", "everywhere"])
def test_a_raise_in_a_task_ends_the_job_with_one_traceback(how: str, tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    done = subprocess.run(
        breaking(out, 4, f"task.how={how}"), capture_output=True, text=True, timeout=60, env=environment()
    )
    assert done.returncode not in (0, 2, 3, 75)
    assert done.stderr.count("Traceback") == 1 and "the task broke on purpose" in done.stderr
    assert re.search(r"ees-mpi: rank [0-3] of 4 on \S+ failed and ends the job", done.stderr)
    assert ours(str(out)) == []


def test_a_rank_that_dies_without_a_word_ends_the_job(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    words = breaking(out, 4, "task.how=exit")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment())
    assert done.returncode != 0
    assert ours(str(out)) == []
    assert info_of_breaking(out) == 0


def info_of_breaking(path: Path) -> int:
    program = f"import breaking, ees_mpi; print(ees_mpi.open_run({str(path)!r}).generations)"
    words = [sys.executable, "-c", program]
    return int(subprocess.run(words, capture_output=True, text=True, env=environment(), check=True).stdout)


def test_an_invalid_rollout_is_left_out_and_counted(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    done = subprocess.run(
        breaking(out, 2, 'task.how="nan"'), capture_output=True, text=True, timeout=60, env=environment()
    )
    assert done.returncode == 0, done.stderr
    assert "5.0% invalid" in done.stdout
    words = [sys.executable, str(TESTS / "run_breaking.py"), "verify", str(out), "--individuals", "20"]
    again = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment())
    assert again.returncode == 0 and "60 individuals" in again.stdout, again.stderr  # the invalid one, replayed, too


def test_mostly_invalid_rollouts_are_an_error(tmp_path: Path) -> None:
    words = breaking(tmp_path / "run.h5", 2, "task.how=mostly nan")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment())
    assert done.returncode == 1
    assert done.stderr.count("ees-mpi: generation 0: 17 of 20 rollouts are not finite") == 1


def start(out: Path, ranks: int) -> subprocess.Popen[str]:
    words = command("train", "interference-maxvar", "--set", "run.generations=50000", "--out", out, ranks=ranks)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    journal = Path(f"{out}.journal")
    deadline = time.monotonic() + 30
    while not (journal.exists() and journal.stat().st_size > 300_000):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    return process


def rank_pids(out: Path) -> list[int]:
    return [pid for pid in ours(str(out)) if b"run" not in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]]


@pytest.mark.parametrize("ranks", [0, 3])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_saves_the_state_and_leaves_with_75(ranks: int, number: signal.Signals, tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    process = start(out, ranks)
    os.kill(rank_pids(out)[-1], number)  # one rank of them: all must decide together
    said, errors = process.communicate(timeout=30)
    assert process.returncode == 75, errors + said
    assert errors.count("ees-mpi: interrupted") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run.h5"]
    kept = info(out)["generations"]
    assert isinstance(kept, int) and kept > 0
    assert ees("resume", out, "--generations", kept + 3, ranks=2).returncode == 0
    reference = train(
        tmp_path / "whole.h5",
        "interference-maxvar",
        f"run.generations={kept + 3}",
        "population.size=500",
        "noise.size=1048576",
    )
    assert_same_bits(out, reference)


def slow(out: Path, ranks: int, *words: str) -> list[str]:
    settings = ('task.how="none"', "task.seconds=0.05", "population.size=40", "run.generations=3")
    return [*breaking(out, ranks, *settings), "--resume", *words]


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("how", ["signal", "limit"])
def test_rollouts_done_before_a_stop_are_kept_and_reused(ranks: int, how: str, tmp_path: Path) -> None:
    out, whole = tmp_path / "run.h5", tmp_path / "whole.h5"
    env = environment()
    limit = ["--max-hours", str(1.2 / ranks / 3600)] if how == "limit" else []
    process = subprocess.Popen(
        slow(out, ranks, *limit), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )
    if how == "signal":
        while not (out.exists() and ours(str(out))):
            time.sleep(0.01)
        line = process.stdout.readline()  # it says what it does when it begins
        assert "generations 0 to 3" in line
        time.sleep(1.2 / ranks)
        os.kill(rank_pids(out)[-1], signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 75, errors
    kept = re.search(r"0 generations and (\d+) rollouts of the next are saved", errors)
    assert kept and 0 < int(kept.group(1)) < 41
    resumed = subprocess.run(slow(out, 2), capture_output=True, text=True, env=env, timeout=60)
    assert resumed.returncode == 0, resumed.stderr
    assert f"{kept.group(1)} rollouts of the first done already" in resumed.stdout
    subprocess.run(slow(whole, 2), check=True, capture_output=True, env=env, timeout=60)
    assert_same_bits(out, whole)
    with h5py.File(out) as file:
        assert "partial" not in file


def test_a_second_writer_is_exit_3_and_told_who_the_first_is(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    process = start(out, 2)
    holder = json.loads(Path(f"{out}.lock").read_text())["pid"]
    done = ees("train", "interference-maxvar", "--out", out, "--overwrite")
    assert done.returncode == 3 and f"is being written by process {holder} on" in done.stderr
    assert ees("resume", out, ranks=2).returncode == 3
    assert info(out)["complete"] is False  # read while it runs
    os.kill(holder, signal.SIGTERM)
    assert process.wait(timeout=30) == 75
    process.communicate()
