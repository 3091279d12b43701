"""The launcher that started this process: mpirun, srun, or none."""

import os
from pathlib import Path

# Where a launcher says how many processes it started and which one this is, most specific first.
LAUNCHERS = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "Open MPI's mpirun"),
    ("PMI_SIZE", "PMI_RANK", "a PMI launcher (mpiexec of MPICH or Intel MPI)"),
    ("PALS_NRANKS", "PALS_RANKID", "mpiexec of Cray PALS"),
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun"),
)


def launched() -> tuple[int, int, str]:
    """Return how many processes a launcher says it started, which one this is, and the launcher; or (0, 0, "")."""
    for size, rank, launcher in LAUNCHERS:
        if os.environ.get(size, "").isdigit():
            if size == "PMI_SIZE" and os.environ[size] == os.environ.get("SLURM_STEP_NUM_TASKS"):
                launcher = "srun"  # speaking PMI
            return int(os.environ[size]), int(os.environ.get(rank, "0")), launcher
    return 0, 0, ""


def launcher_process() -> int:
    """Return the id of the launcher's process on this node: the parent, but for wrappers in between."""
    pid = os.getppid()
    while pid > 1:
        before, _, after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        if before.partition("(")[2] in ("prterun", "prted", "mpirun", "mpiexec"):
            return pid
        pid = int(after.split()[1])
    return os.getppid()
