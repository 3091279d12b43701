"""Who started this process, by what launchers leave in the environment."""

import pytest

from ees_mpi.ranks import process


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (0, 0, "")),
        ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, (0, 0, "")),  # in a batch script, not by srun
        ({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3"}, (4, 3, "srun")),
        ({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3", "PMI_SIZE": "4", "PMI_RANK": "3"}, (4, 3, "srun")),
        # MPICH's mpiexec starts one helper a node with srun, and the ranks by them.
        (
            {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1", "PMI_SIZE": "8", "PMI_RANK": "5"},
            (8, 5, "a PMI launcher (mpiexec of MPICH or Intel MPI)"),
        ),
        (
            {"SLURM_STEP_NUM_TASKS": "2", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": "5"},
            (8, 5, "Open MPI's mpirun"),
        ),
    ],
)
def test_the_launcher_is_told_by_its_variables(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: tuple[int, int, str]
) -> None:
    for name in (*(name for pair in process.LAUNCHERS for name in pair[:2]), "SLURM_NTASKS", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert process.launched() == expected
