"""The program with four MPI libraries. Run by `tools/test --mpi`: root, Debian, minutes."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from support.breaking import breaking
from support.mpi_matrix import LIBRARIES, Library
from support.processes import all_ended, committed, rank_processes, wait_for_text, wait_until
from support.program import TESTS, TIMEOUT, TINY, done, info, python, run, sets, train
from support.run_files import assert_same_bits

WALKING = ("population.size=6", "task.steps=12", "noise.size=100000", "run.generations=3")
FAULTS = ("none", "leaves")
RUNS = {"interference-maxent": TINY, "gymnasium-cheetah-maxent": WALKING, "ant-maxent": WALKING}


@pytest.fixture(params=LIBRARIES, ids=lambda library: library.name)
def library(request: pytest.FixtureRequest) -> Library:
    return request.param


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the same runs without MPI."""
    return tmp_path_factory.mktemp("alone")


@pytest.mark.parametrize("preset", RUNS)
def test_every_library_gives_the_digest_of_one_process(
    preset: str, library: Library, alone: Path, tmp_path: Path
) -> None:
    if not (alone / f"{preset}.h5").exists():
        train(alone / f"{preset}.h5", preset, *RUNS[preset])
    out = tmp_path / "run.h5"
    finished = library.run("train", preset, *sets(*RUNS[preset]), "--out", out, ranks=3)
    assert finished.returncode == 0, finished.stderr + finished.stdout
    facts = info(out)
    print(f"{library.name:15} {preset:22} 3 ranks: {str(facts['state_sha256'])[:16]}")  # shown by tools/test --mpi
    assert (facts["ranks"], facts["nodes"]) == (3, 1)
    assert facts["state_sha256"] == info(alone / f"{preset}.h5")["state_sha256"]
    assert_same_bits(out, alone / f"{preset}.h5")


def test_the_doctor_names_the_library_and_finds_nothing_bad(library: Library, tmp_path: Path) -> None:
    found = library.run("doctor", ranks=2)
    print(found.stdout)
    assert found.returncode == 0, found.stderr + found.stdout
    said = " ".join(found.stdout.split())
    assert library.says in said and "2 ranks on 1 node," in said
    assert "bad " not in found.stdout


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that is disturbed below, undisturbed and without MPI."""
    out = tmp_path_factory.mktemp("whole") / "whole.h5"
    done(*breaking(out, 0, "task.settings.how=none")[1:])
    return out


def disturbed(library: Library, out: Path, *settings: str) -> list[str]:
    """Return the words of a training job on three ranks that can be disturbed."""
    return library.words(*breaking(out, 0, *settings)[1:], ranks=3)


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_a_signal_to_a_rank_saves_the_run_and_resume_ends_it_with_the_same_bits(
    number: signal.Signals, library: Library, whole: Path, tmp_path: Path
) -> None:
    out, mark = tmp_path / "run.h5", tmp_path / "waits"
    slow = ("task.settings.how=mark", "task.settings.at=5", "task.settings.seconds=0.2")
    words = disturbed(library, out, *slow, f'task.settings.mark="{mark}"')
    job = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=library.environment()
    )
    os.kill(int(wait_for_text(mark)), number)
    said, _ = job.communicate(timeout=TIMEOUT)
    assert job.returncode == 75 and info(out)["complete"] is False, said
    again = library.run("resume", out, "--trust", ranks=2)
    assert again.returncode == 0, again.stderr + again.stdout
    assert_same_bits(out, whole)


def test_a_lost_rank_ends_the_job_and_resume_ends_the_run_with_the_same_bits(
    library: Library, whole: Path, tmp_path: Path
) -> None:
    out, mark = tmp_path / "run.h5", tmp_path / "died"
    words = disturbed(library, out, "task.settings.how=die", "task.settings.at=7", f'task.settings.mark="{mark}"')
    ended = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT, env=library.environment())
    assert ended.returncode not in (0, 2, 3, 75), ended.stderr + ended.stdout
    wait_until(lambda: not rank_processes(out))  # no rank outlives the job
    assert mark.exists() and committed(out) < 5
    again = library.run("resume", out, "--trust", ranks=3)
    assert again.returncode == 0, again.stderr + again.stdout
    assert_same_bits(out, whole)
    assert all_ended(out)


def test_loops_of_a_program_have_the_bits_of_one_process_and_end_if_a_rank_leaves(library: Library) -> None:
    program = TESTS / "support" / "several_loops.py"
    alone, ended, left = run(python(program, "none")), *(library.python(program, how, ranks=3) for how in FAULTS)
    assert alone.returncode == ended.returncode == 0 and len(alone.stdout.split()) == 3, ended.stderr
    assert [ended.stdout.count(digest) for digest in alone.stdout.split()] == [3, 3, 3], ended.stdout
    assert left.returncode != 0 and left.stderr.count("ees-mpi: rank 1 has left the loop") == 1, left.stderr


def test_the_launcher_accepts_the_bindings_of_the_job_scripts(library: Library, tmp_path: Path) -> None:
    for number, binding in enumerate((["--bind-to", "none"], ["--map-by", "numa", "--bind-to", "core"])):
        out = tmp_path / f"{number}.h5"
        mpirun, *rest = library.words("train", "interference-maxent", *sets(*TINY), "--out", out, ranks=2)
        line = [mpirun, *binding, *rest]
        finished = subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT, env=library.environment())
        assert finished.returncode == 0, finished.stderr + finished.stdout


def test_a_refused_command_line_ends_all_ranks(library: Library, tmp_path: Path) -> None:
    ended = library.run("train", "interference-maxent", "--nonsense", "--out", tmp_path / "run.h5", ranks=3)
    assert ended.returncode == 2 and ended.stderr.count("No such option") == 1, ended.stderr


REFUSED = """import os, sys
from ees_mpi import __main__, ranks
if str(ranks.launched()[1]) in sys.argv.pop(1):
    os.environ["EES_MPI_START_MINUTES"] = "soon"
sys.argv[1:] = ["doctor"]
__main__.main()
"""


@pytest.mark.parametrize("alone", ["0", "1", "012"])
def test_a_rank_that_is_refused_before_mpi_starts_ends_the_others(alone: str, library: Library) -> None:
    ended = library.python(Path("-c"), REFUSED, alone, ranks=3)
    assert ended.returncode == 1 and ended.stderr.count("got 'soon'") == 1, ended.stderr
    assert ("ees-mpi: rank 1 on " in ended.stderr) == (alone == "1")
