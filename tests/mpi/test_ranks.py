import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BIN, environment

PROGRAMS = Path(__file__).parent / "programs.py"


def program(name: str, ranks: int, **more: str) -> subprocess.CompletedProcess[str]:
    words = [str(BIN / "mpirun"), "-n", str(ranks), sys.executable, str(PROGRAMS), name]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment(**more))


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("name", ["gathers", "together", "noise"])
def test_under_mpirun(name: str, ranks: int) -> None:
    done = program(name, ranks)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("ok", f"{ranks} ranks share it")
    assert done.stderr == ""


@pytest.mark.parametrize("name", ["gathers", "together", "noise"])
def test_without_mpirun(name: str) -> None:
    done = subprocess.run([sys.executable, str(PROGRAMS), name], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.parametrize(
    ("name", "message", "code"),
    [
        ("out_of_step", "the state after generation 7 is not the same on all ranks: rank 1 on", 1),
        ("not_alike", "blas is 'another BLAS' on rank 2 on", 1),
        ("lonely_error", "only rank 1 knows", 2),
    ],
)
def test_an_error_ends_all_ranks_and_is_told_once(name: str, message: str, code: int) -> None:
    done = program(name, 4)
    assert done.returncode == code
    assert done.stderr.count("ees-mpi: ") == 1 and message in done.stderr
    assert "Traceback" not in done.stderr and "not reached" not in done.stdout


def test_a_silent_singleton_is_refused_with_reason_and_cure() -> None:
    """As under `srun --mpi=pmi2` with an MPI that does not speak it: every process its own world."""
    said = []
    for rank in range(2):
        env = {**os.environ, "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": str(rank)}
        words = [sys.executable, str(PROGRAMS), "gathers"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=env)
        said.append((done.returncode, done.stderr))
    assert said[0][0] == 1 and said[1] == (0, "")
    assert "srun started 2 processes" in said[0][1] and "world of size 1" in said[0][1]
    assert "srun --mpi=pmix" in said[0][1]
