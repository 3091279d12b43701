"""This process: who started it, by what launchers leave in the environment; and its time limit."""

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.own_tasks import Waves
from support.program import CHECKOUT, TESTS, TINY, ees, environment, python, run, sets

import ees_mpi
from ees_mpi.errors import LaunchError, collective
from ees_mpi.ranks import Ranks, launch, process, refusal
from ees_mpi.registry.plugins import forget

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


def test_a_command_has_a_time_limit_and_leaves_none_behind(limits: list[float], tmp_path: Path) -> None:
    words = sets(*TINY, "run.stall_minutes=7", "run.fsync=false")
    assert ees("train", "interference-maxvar", *words, "--out", tmp_path / "run.h5").returncode == 0
    assert limits[0] == 60 * 7 and limits[-1] == 0


def test_the_time_limit_holds_before_code_of_the_user_runs(
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
        forget()
        assert ees(*words).returncode == 0
    assert found == 3 * [[60 * 7]]


def test_a_thread_of_the_user_that_never_ends_does_not_keep_a_command_alive() -> None:
    never = "import sys, threading, ees_mpi.__main__ as it; threading.Thread(target=threading.Event().wait).start()"
    short = "sys.argv = ['ees-mpi', 'presets']; sys.modules['ees_mpi.ranks.process'].END['seconds'] = 0.1; it.main()"
    words = [sys.executable, "-c", f"{never}; {short}"]
    ended = run(words)
    assert ended.returncode == 1 and ended.stderr.count("Timeout (") == 1 and "interference-maxent" in ended.stdout


@pytest.mark.parametrize("typo", ["5 min", "", "0", "-1", "nan", "inf"])
def test_a_start_limit_that_is_no_number_of_minutes_is_refused(typo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(process.START_MINUTES, typo)
    with pytest.raises(LaunchError, match=r"EES_MPI_START_MINUTES: expected a number of minutes, got"):
        process.start_minutes()


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


def test_last_messages_come_one_after_the_other_also_above_rank_16() -> None:
    order = [process.turn(rank, rank % 8) for rank in range(17)]
    assert order == sorted(set(order))
    assert process.turn(4999, 0) > order[-1] and process.turn(4999, 1) > process.turn(4998, 0)


def test_exit_without_a_code_inside_a_job_does_not_look_like_success() -> None:
    with pytest.raises(RuntimeError, match=r"called exit\(\)"):
        launch.supervise(Ranks(), lambda ranks: sys.exit())


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


@pytest.mark.parametrize("hears", [False, True], ids=["rank 0 has caught it", "rank 0 prints it"])
def test_an_error_that_all_ranks_raise_is_printed_by_rank_0_or_else_by_each(
    hears: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[str] = []
    calls = SimpleNamespace(comm=SimpleNamespace(size=2, Irecv=lambda buffer, root: root))
    mpi = SimpleNamespace(CALLS=calls, wait_for=lambda request, seconds: hears)
    monkeypatch.setitem(sys.modules, "ees_mpi.ranks.mpi", mpi)
    monkeypatch.setattr(launch, "launched", lambda: (2, 1, "mpirun"))
    monkeypatch.setattr(sys, "excepthook", before := lambda kind, error, trace: printed.append(str(error)))
    launch.PrintedOnRoot.set(error := collective(LaunchError("all")))
    for raised in (error, LaunchError("one"), ValueError("mine")):
        sys.excepthook(type(raised), raised, None)
    assert printed == ["all"] * (not hears) + ["one", "mine"]
    launch.PrintedOnRoot.remove()  # the program has caught it
    assert sys.excepthook is before


def test_a_rank_that_is_refused_alone_says_so_and_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(refusal, "time", SimpleNamespace(sleep=slept.append))
    monkeypatch.setattr(process, "settable", lambda signals: [])
    names = (name for each in process.LAUNCHERS for name in each[:2])
    for name in (*names, "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"):
        monkeypatch.delenv(name, raising=False)
    assert refusal.await_root(2, of_words=False) == "" and slept == []
    for size, rank, place in (("PMI_SIZE", "PMI_RANK", "1"), ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "0")):
        for name, value in {size: "4", rank: "1", "SLURM_LOCALID": place}.items():
            monkeypatch.setenv(name, value)
        assert refusal.await_root(2, of_words=False).startswith("rank 1 on ") and slept.pop() > refusal.ROOT_SECONDS
        monkeypatch.delenv(size)
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    for place, of_words in (("0", True), ("1", False)):  # srun: rank 0, or another rank of this node prints it
        monkeypatch.setenv("SLURM_LOCALID", place)
        with pytest.raises(SystemExit):
            refusal.await_root(2, of_words)
    source, target = os.pipe()
    monkeypatch.setenv("PMI_SIZE", "8")
    monkeypatch.setenv("PMI_FD", str(target))
    with open(source, "rb", 0) as told, open(target, "wb", 0):
        with pytest.raises(SystemExit, match="3"):
            refusal.end_start(3)
        assert told.read(100) == b"cmd=abort exitcode=3\n"


def test_a_package_that_cannot_be_imported_is_told_once_and_no_rank_waits(tmp_path: Path) -> None:
    (tmp_path / "h5py.py").write_text("raise ImportError('libz.so.9: not found')")
    source, target = os.pipe()
    alone = {"PYTHONPATH": f"{tmp_path}:{CHECKOUT}", "PMI_SIZE": "2", "PMI_RANK": "0", "PMI_FD": str(target)}
    words = [sys.executable, "-m", "ees_mpi", "repair", "run.h5"]
    with open(source, "rb", 0) as told, open(target, "wb", 0):
        ended = subprocess.run(words, capture_output=True, text=True, env=environment(**alone), pass_fds=[target])
        assert ended.returncode == 1 and ended.stderr.count("Traceback") == 1, ended.stderr
        assert told.read(100) == b"cmd=abort exitcode=1\n"
