"""What ranks do together: gathers, shared noise, errors."""

import shlex
import subprocess
import tempfile
from pathlib import Path

import pytest
from support.program import MPIRUN, TESTS, TIMEOUT, TINY, command, ees, environment, python, run, sets

from ees_mpi import memory
from ees_mpi.commands import doctor

PROGRAMS = TESTS / "support" / "rank_programs.py"


@pytest.mark.standing_ranks
@pytest.mark.parametrize("ranks", [None, 2, 3])  # None: without mpirun
def test_gathers_shared_errors_and_noise_work_for_any_number_of_ranks(ranks: int | None) -> None:
    done = ees(PROGRAMS, "gathers", "together", "noise", ranks=ranks)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["ok", "ok", f"{ranks or 1} ranks share it"]
    assert done.stderr == ""


@pytest.mark.standing_ranks
def test_a_rank_that_is_alone_on_its_node_stays_in_step_with_nodes_of_several() -> None:
    done = ees(PROGRAMS, "uneven_nodes", ranks=3)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[2, 2, 1]\n", "")


@pytest.mark.parametrize(
    ("name", "message", "code"),
    [
        ("out_of_step", "the state after generation 7 is not the same on all ranks: rank 1 on", 1),
        ("not_alike", "blas is 'another BLAS' on rank 2 on", 1),
        ("lonely_error", "only rank 1 knows", 2),
        ("lost_rank", "rank 0 on", 1),
    ],
)
def test_an_error_ends_all_ranks_and_is_told_once(name: str, message: str, code: int) -> None:
    done = run(python(PROGRAMS, name, ranks=3))
    assert done.returncode == code
    assert done.stderr.count("ees-mpi: ") == 1 and message in done.stderr
    assert "Traceback" not in done.stderr and "not reached" not in done.stdout


def test_ranks_with_several_command_lines_are_refused_instead_of_one_run(tmp_path: Path) -> None:
    """As in `srun bash -c 'ees-mpi train ... --seed $SLURM_PROCID'`, which is meant as a run for each rank."""
    words = shlex.join(command("train", "interference-maxvar", *sets(*TINY)))
    own = f"--seed $OMPI_COMM_WORLD_RANK --out {tmp_path}/$OMPI_COMM_WORLD_RANK.h5"
    done = run([MPIRUN, "-n", "2", "bash", "-c", f"{words} {own}"])
    assert done.returncode == 1 and done.stderr.count("ees-mpi: ") == 1
    assert "the command line" in done.stderr and not [*tmp_path.iterdir()]


def test_processes_that_each_see_a_world_of_one_are_refused_with_reason_and_cure() -> None:
    """As under `srun --mpi=pmi2` with an MPI that does not speak it."""
    words, jobs = python(PROGRAMS, "gathers"), []
    for rank in range(2):
        env = environment(SLURM_STEP_NUM_TASKS="2", SLURM_PROCID=f"{rank}")
        jobs.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env))
    said = [job.communicate(timeout=TIMEOUT)[1] for job in jobs]
    assert [job.returncode for job in jobs] == [1, 0] and said[1] == ""
    for text in ("srun started 2 processes", "world of size 1", "srun --mpi=pmix"):
        assert text in said[0]


@pytest.mark.standing_ranks
def test_doctor_finds_two_ranks_well_and_names_what_a_killed_run_left() -> None:
    with tempfile.NamedTemporaryFile(dir=memory.SHARED_MEMORY, prefix=memory.SHARED_PREFIX) as left:
        done = ees("doctor", ranks=2)
    assert done.returncode == 0 and "bad " not in done.stdout and doctor.DIGEST in done.stdout, done.stdout
    assert left.name in done.stdout.partition("left behind")[2].partition("\n")[0]
    alone = ees("doctor", "--run", ranks=3)
    assert alone.returncode == 0 and doctor.DIGEST in alone.stdout and "MPI" not in alone.stdout, alone.stdout
