"""This process: who started it, by what launchers leave in the environment; and its time limit."""

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.own_tasks import Waves
from support.program import CHECKOUT, TESTS, TINY, ees, environment, python, run, sets

import ees_mpi
from ees_mpi.errors import LaunchError
from ees_mpi.ranks import Ranks, launch, process
from ees_mpi.registry.search import MADE

PMI = "a PMI launcher (mpiexec of MPICH or Intel MPI)"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ("", (0, 0, "")),
        ("SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_PROCID=0", (0, 0, "")),  # in a batch script, not by srun
        ("SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3", (4, 3, "srun")),
        ("SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3 PMI_SIZE=4 PMI_RANK=3", (4, 3, "srun")),
        # MPICH's mpiexec starts one helper a node with srun, and the ranks by them.
        ("SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 PMI_SIZE=8 PMI_RANK=5", (8, 5, PMI)),
        ("SLURM_STEP_NUM_TASKS=2 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_RANK=5", (8, 5, "Open MPI's mpirun")),
    ],
)
def test_the_launcher_is_told_by_its_variables(
    monkeypatch: pytest.MonkeyPatch, variables: str, expected: tuple[int, int, str]
) -> None:
    for name in (*(name for pair in process.LAUNCHERS for name in pair[:2]), "SLURM_NTASKS", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    for word in variables.split():
        monkeypatch.setenv(*word.split("="))
    assert process.launched() == expected


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The limits that this process sets; 0: none."""
    found: list[float] = []
    monkeypatch.setattr(process.faulthandler, "dump_traceback_later", lambda seconds, **more: found.append(seconds))
    monkeypatch.setattr(process.faulthandler, "cancel_dump_traceback_later", lambda: found.append(0))
    return found


def test_the_time_limit_holds_before_code_of_the_user_runs_and_a_command_leaves_none_behind(
    limits: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, out = [], tmp_path / "run.h5"
    monkeypatch.setattr(Waves, "__init__", lambda task: found.append(limits[-1:]))
    own = ("task.name=custom", "task.function=support.own_tasks:Waves", "run.stall_minutes=7", "run.fsync=false")
    for words in (
        ("train", "interference-maxvar", *sets(*TINY, *own), "--out", out),
        ("resume", out, "--generations", "7", "--trust"),
        ("sample", out, "--count", "4", "--trust", "--out", tmp_path / "sample.h5"),
    ):
        MADE.clear()
        assert ees(*words).returncode == 0 and limits[-1] == 0
    assert found == 3 * [[60 * 7]]


def test_a_thread_of_the_user_that_never_ends_does_not_keep_a_command_alive() -> None:
    never = "import sys, threading, ees_mpi.__main__ as it; threading.Thread(target=threading.Event().wait).start()"
    short = "sys.argv = ['ees-mpi', 'presets']; sys.modules['ees_mpi.ranks.process'].END['seconds'] = 0.1; it.main()"
    words = [sys.executable, "-c", f"{never}; {short}"]
    ended = run(words)
    assert ended.returncode == 1 and ended.stderr.count("Timeout (") == 1 and "interference-maxent" in ended.stdout


@pytest.mark.parametrize("typo", ["5 min", "0", "nan"])
def test_a_start_limit_that_is_no_number_of_minutes_is_refused(typo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(process.START_MINUTES, typo)
    with pytest.raises(LaunchError, match=r"EES_MPI_START_MINUTES: expected a number of minutes, got"):
        process.start_minutes()


def test_more_ranks_have_longer_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (process.START_MINUTES, *(size for size, _, _ in process.LAUNCHERS)):
        monkeypatch.delenv(name, raising=False)
    assert process.start_minutes() == 5
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "10000")
    assert process.start_minutes() == 25


def test_a_program_that_calls_a_function_has_no_time_limit(limits: list[float], tmp_path: Path) -> None:
    tiny = {"population.size": 20, "run.generations": 2, "noise.size": 5000, "run.stall_minutes": 7.0}
    ees_mpi.train("interference-maxvar", tmp_path / "run.h5", settings=tiny).close()
    ees_mpi.open_run(tmp_path / "run.h5").close()
    assert not any(limits)


@pytest.mark.standing_ranks
@pytest.mark.slow
def test_a_single_process_that_python_calls_has_no_time_limit_under_mpirun_either(tmp_path: Path) -> None:
    program = TESTS / "support" / "python_calls.py"
    one = run(python(program, "has_a_stall_limit", tmp_path / "1", ranks=1))
    two = ees(program, "has_a_stall_limit", tmp_path / "2", ranks=2)
    assert one.returncode == two.returncode == 0, one.stderr + two.stderr
    assert one.stdout.count(" False\n") == 1 and two.stdout.count(" True\n") == 2, one.stdout + two.stdout


def _handlers_and_death_signal() -> list[object]:
    death = ctypes.c_int()
    ctypes.CDLL(None).prctl(2, ctypes.byref(death))  # PR_GET_PDEATHSIG
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    return [*(signal.getsignal(number) for number in numbers), death.value]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_a_task_forks_ends_by_sigterm_and_with_its_parent() -> None:
    process.note_stops()
    try:
        with multiprocessing.get_context("fork").Pool(1) as pool:
            found = pool.apply(_handlers_and_death_signal)
    finally:
        process.act_on_stops()
    assert found == [signal.SIG_DFL, signal.SIG_IGN, signal.SIG_IGN, signal.SIGKILL]


def test_exit_without_a_code_inside_a_job_does_not_look_like_success() -> None:
    with pytest.raises(RuntimeError, match=r"called exit\(\)"):
        launch.supervise(Ranks(limited=True), lambda ranks: sys.exit())


class Reader:
    """The other end of a pipe, and a clock: while this process sleeps, it reads four bytes, or does nothing."""

    def __init__(self, number: int, reads: bool):
        self.number, self.reads = number, reads
        self.said, self.now = b"", 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.reads:
            self.said += os.read(self.number, 4)


def test_a_rank_that_ends_the_job_waits_until_its_pipes_are_empty_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source, pipe = os.pipe2(os.O_NONBLOCK)
    with open(source, "rb"), open(pipe, "wb", 0) as last, open(tmp_path / "log", "w+b", 0) as log:
        log.write(b"nobody reads it")
        log.seek(0)
        monkeypatch.setattr(process, "STREAMS", (log.fileno(), pipe, -1))
        patient, lost = (Reader(source, reads) for reads in (True, False))
        for reader in (patient, lost):
            monkeypatch.setattr(process, "time", reader)
            last.write(b"a last message")
            process.await_reader()
    assert patient.said == b"a last message" and patient.now < process.READ_SECONDS <= lost.now


def test_a_rank_that_is_refused_alone_says_so_and_ends_the_others(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(process, "time", SimpleNamespace(sleep=slept.append, monotonic=time.monotonic))
    for name in (name for each in process.LAUNCHERS for name in each[:2]):
        monkeypatch.delenv(name, raising=False)
    source, target = os.pipe()
    with open(source, "rb", 0) as told, open(target, "wb", 0):
        for rank, who in (("0", "ees-mpi: wrong"), ("1", "ees-mpi: rank 1 on ")):
            for name, value in {"PMI_SIZE": "8", "PMI_RANK": rank, "PMI_FD": str(target)}.items():
                monkeypatch.setenv(name, value)
            with pytest.raises(SystemExit, match="3"):
                process.leave("wrong", 3)
            assert capfd.readouterr().err.startswith(who) and told.read(100) == b"cmd=abort exitcode=3\n"
    assert slept == [process.START_SECONDS]  # rank 0 may have the same error, and prints it at once


def test_a_package_that_cannot_be_imported_is_told_once_and_no_rank_waits(tmp_path: Path) -> None:
    (tmp_path / "h5py.py").write_text("raise ImportError('libz.so.9: not found')")
    source, target = os.pipe()
    alone = {"PYTHONPATH": f"{tmp_path}:{CHECKOUT}", "PMI_SIZE": "2", "PMI_RANK": "0", "PMI_FD": str(target)}
    words = [sys.executable, "-m", "ees_mpi", "repair", "run.h5"]
    with open(source, "rb", 0) as told, open(target, "wb", 0):
        ended = subprocess.run(words, capture_output=True, text=True, env=environment(**alone), pass_fds=[target])
        assert ended.returncode == 1 and ended.stderr.count("Traceback") == 1, ended.stderr
        assert told.read(100) == b"cmd=abort exitcode=1\n"
