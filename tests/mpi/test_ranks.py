"""What ranks do together: gathers, shared noise, errors."""

import os
import subprocess
import sys

import pytest
from support.program import TESTS, TIMEOUT, command, ees, python, run

PROGRAMS = TESTS / "support" / "rank_programs.py"


@pytest.mark.standing_ranks
@pytest.mark.parametrize("ranks", [None, 2, 3])  # None: without mpirun
def test_gathers_shared_errors_and_noise_work_for_any_number_of_ranks(ranks: int | None) -> None:
    done = ees(PROGRAMS, "gathers", "together", "noise", ranks=ranks)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["ok", "ok", f"{ranks or 1} ranks share it"]
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("name", "message", "code"),
    [
        ("out_of_step", "the state after generation 7 is not the same on all ranks: rank 1 on", 1),
        ("not_alike", "blas is 'another BLAS' on rank 2 on", 1),
        ("lonely_error", "only rank 1 knows", 2),
    ],
)
def test_an_error_ends_all_ranks_and_is_told_once(name: str, message: str, code: int) -> None:
    done = run(python(PROGRAMS, name, ranks=3))
    assert done.returncode == code
    assert done.stderr.count("ees-mpi: ") == 1 and message in done.stderr
    assert "Traceback" not in done.stderr and "not reached" not in done.stdout


def test_processes_that_each_see_a_world_of_one_are_refused_with_reason_and_cure() -> None:
    """As under `srun --mpi=pmi2` with an MPI that does not speak it."""
    said = []
    for rank in range(2):
        env = {**os.environ, "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": str(rank), "PYTHONPATH": str(TESTS)}
        words = [sys.executable, str(PROGRAMS), "gathers"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT, env=env)
        said.append((done.returncode, done.stderr))
    assert said[0][0] == 1 and said[1] == (0, "")
    assert "srun started 2 processes" in said[0][1] and "world of size 1" in said[0][1]
    assert "srun --mpi=pmix" in said[0][1]


def test_doctor_finds_two_ranks_well_and_says_what_happens_if_one_is_lost() -> None:
    done = run(command("doctor", ranks=2))
    assert done.returncode == 0 and "`resume` continues from the last commit" in done.stdout, done.stdout
    assert "bad " not in done.stdout and "one BLAS thread" in done.stdout
