"""The promises of a job on several ranks: it never hangs, a stop saves the state, an error of one rank ends all ranks
with one readable message, and no process stays behind.

`run.stall_minutes` is short here. A rank that waits gives the others 10 s more than that.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.breaking import breaking
from support.own_parts import write
from support.processes import all_ended, committed, rank_processes, wait_for_text, wait_until
from support.program import BIN, MPIRUN, TIMEOUT, TINY, command, done, ees, environment, info, python, run, sets, train
from support.run_files import assert_same_bits

from ees_mpi import open_run
from ees_mpi.store import lock

SHORT, AT = "run.stall_minutes=0.2", ("task.settings.at=7",)


def start(words: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())


def training(words: list[str], out: Path) -> "subprocess.Popen[str]":
    """Start a long run, and wait until it has committed some generations."""
    process = start(words)
    wait_until(lambda: process.poll() is not None or committed(out))
    return process


def interference(out: Path, ranks: int) -> "subprocess.Popen[str]":
    settings = sets(*TINY, "run.generations=50000")
    return training(command("train", "interference-maxvar", *settings, "--out", out, ranks=ranks), out)


def whole(folder: Path) -> Path:
    """Train the breaking task, which does not break."""
    out = folder / "whole.h5"
    done(*breaking(out, 0, "task.settings.how=none")[1:])
    return out


@pytest.mark.slow(long=True)
def test_a_rank_that_stands_still_ends_the_job(tmp_path: Path) -> None:
    """It is stopped, never starts MPI, sleeps in C and holds the GIL, loops in Python, opens its task, or is in an exit
    handler after a complete run, for which the others wait in MPI_Finalize: all at once, because each takes 25 s."""
    missing = tmp_path / "missing.h5"  # the processes that wait for an absent rank are found by it
    out, slow = tmp_path / "stopped.h5", ("task.settings.seconds=0.02", "run.generations=1000", SHORT)
    stopped = training(breaking(out, 3, "task.settings.how=none", *slow), out)
    os.kill(json.loads(wait_for_text(Path(f"{out}.lock")))["pid"], signal.SIGSTOP)  # the others wait in a gather
    words = (
        f'[ "$OMPI_COMM_WORLD_RANK" = 1 ] && sleep 600; EES_MPI_START_MINUTES=0.2 exec {BIN}/ees-mpi verify {missing}'
    )
    absent = start([MPIRUN, "-n", "3", "/bin/sh", "-c", words])
    files = {tmp_path / "lock.h5": 2, tmp_path / "open.h5": 2, tmp_path / "loop.h5": 0}
    how = {each: breaking(each, ranks, f"task.settings.how={each.stem}", *AT, SHORT) for each, ranks in files.items()}
    still = {each: start(words) for each, words in how.items()}
    undisturbed = whole(tmp_path)
    at_exit = [tmp_path / f"{how} at exit.h5" for how in ("stop", "close", "sleep")]
    words = {each: [f'task.settings.how="{each.stem}"', *AT, "run.generations=1", SHORT] for each in at_exit}
    complete = {each: start(breaking(each, 2, *words[each])) for each in at_exit}
    for each, ended in still.items():
        error = ended.communicate(timeout=TIMEOUT)[1]
        assert ended.returncode == 1 and all_ended(each), error
        assert error.count("Timeout (") == 1 and "breaking.py" in error, error  # its own stack
        done(*breaking(each, 0, "task.settings.how=none")[1:], "--resume")
        assert_same_bits(each, undisturbed)
    errors = absent.communicate(timeout=TIMEOUT)[1], stopped.communicate(timeout=TIMEOUT)[1]
    assert absent.returncode != 0 and all_ended(missing) and "Timeout (" not in errors[0], errors[0]
    assert "rank 1 has not loaded MPI (process " in errors[0] and "EES_MPI_START_MINUTES" in errors[0], errors[0]
    assert stopped.returncode == 1 and all_ended(out), errors[1]
    said, stacks = (errors[1].count(text) for text in ("run.stall_minutes", "Timeout ("))  # others are in a gather
    assert said <= 1 and said + stacks >= 1 and stacks < 3, errors[1]
    for each, ended in complete.items():
        error = ended.communicate(timeout=TIMEOUT)[1]
        assert ended.returncode == 1 and all_ended(each), error
        assert info(each)["complete"] is True, error
    assert error.count("Timeout (") == 1 and "MPI_Finalize" not in error, error  # the stack of the one that sleeps


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("ees_mpi.ranks.serial.Ranks.set_stall_limit", "1 / 0"),
        ("ees_mpi.strategy.evolution.Evolution.ask", "exec('1 / 0', {})"),
    ],
    ids=["while MPI starts", "in the job"],
)
def test_an_error_of_the_program_itself_on_one_rank_ends_the_job_at_once(tmp_path: Path, place: str, code: str) -> None:
    """Its time limits are far away: nothing but the end of that rank ends the others."""
    program = tmp_path / "program.py"
    program.write_text(
        "import os\n"
        "import ees_mpi.__main__\n"
        "def fail(*words):\n"
        f"    {code}\n"
        "if os.environ['OMPI_COMM_WORLD_RANK'] == '1':\n"
        f"    import {place.rpartition('.')[0].rpartition('.')[0]}\n"
        f"    {place} = fail\n"
        "ees_mpi.__main__.main()\n"
    )
    ended = run([*python(program, ranks=2), *breaking(tmp_path / "run.h5", 0, "task.settings.how=none")[1:]])
    assert ended.returncode not in (0, 2) and "Timeout (" not in ended.stderr, ended.stderr
    assert ended.stderr.count("ZeroDivisionError") == 1 and "failed and ends the job" in ended.stderr, ended.stderr


@pytest.mark.slow
def test_no_rank_outlives_a_killed_mpirun(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    process = start(breaking(out, 2, "task.settings.how=hang", "task.settings.at=7"))
    wait_until(lambda: process.poll() is not None or out.exists())
    process.kill()
    process.communicate(timeout=TIMEOUT)
    assert all_ended(out)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [None, 0, 2], ids=["Python", "alone", "mpirun"])
def test_a_pool_of_processes_in_a_task_ends_and_leaves_no_worker(ranks: int | None, tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    words = breaking(out, ranks or 0, "task.settings.how=pool", "run.stall_minutes=2")
    if ranks is None:
        program = "import sys, ees_mpi; ees_mpi.train(sys.argv[1], sys.argv[2], settings={'task.settings.how': 'pool'})"
        words = [sys.executable, "-c", program, str(out.with_suffix(".toml")), str(out)]
    ended = run(words)
    assert ended.returncode == 0, ended.stderr
    assert info(out)["complete"] is True and all_ended(out)


@pytest.mark.slow
def test_a_signal_to_one_rank_saves_the_state_and_until_then_there_is_no_second_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "WAIT_SECONDS", 0.2)
    out = tmp_path / "run.h5"
    process = interference(out, 2)
    holder = json.loads(Path(f"{out}.lock").read_text())["pid"]
    for words in (("train", "interference-maxvar", "--out", out, "--overwrite"), ("resume", out)):
        second = ees(*words)
        assert second.returncode == 3 and f"is being written by process {holder} on" in second.stderr
    assert info(out)["complete"] is False  # it is read while it runs
    os.kill(rank_processes(out)[-1], signal.SIGTERM)
    said, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 75, errors + said
    assert errors.count("ees-mpi: interrupted") == 1 and all_ended(out)
    assert [path.name for path in tmp_path.iterdir()] == ["run.h5"]
    kept = int(str(info(out)["generations"]))
    assert kept > 0
    done("resume", out, "--generations", kept + 3)
    assert_same_bits(out, train(tmp_path / "whole.h5", "interference-maxvar", f"run.generations={kept + 3}"))


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "how"), [(2, "signal"), (0, "limit")])
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


@pytest.mark.slow
def test_ctrl_c_at_mpirun_ends_the_job_with_1_and_keeps_the_file(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    process = interference(out, 2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 1 and "Traceback" not in errors and all_ended(out)
    with open_run(out) as opened:
        opened.check_last()


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [0, 2])
def test_a_task_that_raises_keyboard_interrupt_is_one_sentence(ranks: int, tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    ended = run(breaking(out, ranks, 'task.settings.how="interrupt"'))
    assert ended.returncode == 1 and "Traceback" not in ended.stderr, ended.stderr
    raised = re.findall('ees-mpi: .*raised KeyboardInterrupt: .*breaking.py", line', ended.stderr)
    assert len(raised) == 1, ended.stderr
    assert all_ended(out) and info(out)["generations"] == 0


@pytest.mark.slow
def test_a_second_ctrl_c_at_the_ranks_ends_the_job_at_once_with_one_sentence(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    ended = run(breaking(out, 2, 'task.settings.how="ctrl-c twice"'))
    assert ended.returncode == 130 and "Traceback" not in ended.stderr, ended.stderr
    twice = "ees-mpi: interrupted twice; the job ends at once. All committed generations are safe"
    assert ended.stderr.count(twice) == 1, ended.stderr
    assert all_ended(out) and info(out)["generations"] == 0


@pytest.mark.slow
def test_a_task_that_exits_ends_the_job_with_an_error(tmp_path: Path) -> None:
    out, silent = tmp_path / "run.h5", tmp_path / "silent.h5"
    left = run(breaking(out, 2, "task.settings.how=leave"))
    assert left.stderr.count("individual 3: task.function support.breaking:Breaking: evaluate() raised SystemExit") == 1
    gone = run(breaking(silent, 2, "task.settings.how=exit"))  # os._exit
    assert not {left.returncode, gone.returncode} & {0, 2, 3, 75} and all_ended(out) and all_ended(silent)


def test_a_task_that_is_another_one_on_one_rank_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    ended = run(breaking(out, 2, "task.settings.how=size"))
    assert ended.returncode == 1 and ended.stderr.count("ees-mpi: the task, in its sizes") == 1, ended.stderr
    assert "rank 1 on" in ended.stderr and "Traceback" not in ended.stderr and not out.exists()


def test_an_exception_in_a_task_ends_the_job_with_the_lines_of_the_task(tmp_path: Path) -> None:
    out, error = tmp_path / "run.h5", "BrokenPipeError"  # not taken for the end of our own output
    ended = run(breaking(out, 2, 'task.settings.how="broken pipe"'))
    where = "ees-mpi: generation 0, individual 3: task.function support.breaking:Breaking: evaluate() raised "
    assert ended.returncode == 1 and ended.stderr.count(f"{where}{error}") == 1
    lines = [line for line in ended.stderr.splitlines() if ", line " in line]
    assert [line.split()[-1] for line in lines] == ["evaluate", "_break"] and "Traceback" not in ended.stderr
    assert f"    raise {error}" in ended.stderr
    assert all_ended(out)


@pytest.mark.slow
def test_an_error_in_an_update_on_all_ranks_is_told_once_and_hangs_nobody(tmp_path: Path) -> None:
    config, out, code = write(tmp_path, "An optimizer"), tmp_path / "run.h5", tmp_path / "momentum.py"
    code.write_text(code.read_text().replace("speed = {", "abs(moments['mean'][0, 0]) > 0.3 and 1 / 0; speed = {"))
    failed = run(command("train", config, "--set", "run.generations=500", "--out", out, ranks=2))
    assert failed.returncode == 1 and failed.stderr.count("ees-mpi: ") == 1, failed.stderr
    where = "ees-mpi: generation 1: optimizer.function momentum:Momentum: step() raised ZeroDivisionError"
    assert where in failed.stderr and f'"{code}", line 15, in step' in failed.stderr
    assert all_ended(out) and info(out)["generations"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "fault", "code", "sentence"),
    [
        ("class Momentum", "missing", 2, "ees-mpi: optimizer.function momentum:Momentum: importing it raised Name"),
        ("speed = {", "gradient['mean'].fill(np.nan)", 1, "ees-mpi: the state after generation 0 is not the same on"),
    ],
)
def test_an_optimizer_that_is_faulty_on_one_rank_ends_the_job_at_once(
    before: str, fault: str, code: int, sentence: str, tmp_path: Path
) -> None:
    config, out, module = write(tmp_path, "An optimizer"), tmp_path / "run.h5", tmp_path / "momentum.py"
    guarded = f"__import__('os').environ.get('OMPI_COMM_WORLD_RANK') == '1' and {fault}"
    module.write_text(re.sub(f"( *){re.escape(before)}", rf"\1{guarded}\n\g<0>", module.read_text()))
    ended = run(command("train", config, *sets("noise.size=100001"), "--out", out, ranks=2))
    assert not run(["find", "/dev/shm", "-name", "ees-mpi-*", "-size", "400004c"]).stdout  # of this run's noise table
    assert ended.returncode == code and ended.stderr.count("ees-mpi: ") == 1 and sentence in ended.stderr, ended.stderr
    assert out.exists() is (code == 1) and all_ended(out)


@pytest.mark.parametrize(
    ("how", "number"),
    [("nan", "behavior[0] is nan"), ("false nan", "behavior[0] is nan"), ("inf", "fitness is -inf")],
)  # called invalid by the task; called valid by mistake
def test_an_invalid_rollout_is_left_out_counted_told_and_verified(how: str, number: str, tmp_path: Path) -> None:
    out = tmp_path / "run.h5"
    said = done(*breaking(out, 0, f'task.settings.how="{how}"', "task.deterministic=true")[1:]).stdout
    assert "5.0% invalid" in said and said.count("1 of 20 rollouts is invalid, ") == 1
    assert f"The first is individual 3: {number}\n" in said
    assert "60 individuals" in done("verify", out, "--individuals", "20").stdout  # including the invalid one
