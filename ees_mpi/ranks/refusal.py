"""The end of a rank that is refused before MPI has started. This module imports no numpy."""

import contextlib
import os
import signal
import sys
import time
from typing import NoReturn

from ees_mpi.ranks import process
from ees_mpi.ranks.process import launched

ROOT_SECONDS = 5.0  # that rank 0 has to print an error of the command line


def speaks_for_its_node() -> bool:
    """Return whether this process prints an error that all processes of its node have; True if its place is unknown."""
    return _place_on_node() == 0


def _place_on_node() -> int:
    names = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID", "SLURM_LOCALID")
    found = next((os.environ[name] for name in names if name in os.environ), "")
    return int(found) if found.isdigit() else 0


def await_root(code: int) -> str:
    """Let rank 0 print an error that it has, too, and end this rank; return the name of a rank that has it alone.

    Before MPI has started, no rank knows of the errors of others. srun may let all ranks live: then a rank of each node
    prints the error.
    """
    _, rank, launcher = launched()
    if not rank:
        return ""
    for number in process.settable([signal.SIGTERM]):
        signal.signal(number, signal.SIG_DFL)
    time.sleep(ROOT_SECONDS + process.turn(rank, _place_on_node()))
    if launcher == "srun" and not speaks_for_its_node():
        sys.exit(code)
    return f"rank {rank} on {os.uname().nodename}: "


def end_start(code: int) -> NoReturn:
    """Exit before MPI has started; the launcher ends the other ranks, which would wait for this one.

    Open MPI's mpirun and `srun --kill-on-bad-exit` do so after any code but 0. MPICH's needs this line of its protocol.
    """
    if launched()[2].startswith("a PMI"):
        process.await_reader()
        with contextlib.suppress(KeyError, ValueError, OSError):
            os.write(int(os.environ["PMI_FD"]), f"cmd=abort exitcode={code}\n".encode())
    sys.exit(code)
