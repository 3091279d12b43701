"""The end of a rank that is refused before MPI has started. This module imports no numpy."""

import contextlib
import os
import sys
from typing import NoReturn

from ees_mpi.ranks import process
from ees_mpi.ranks.process import launched
from ees_mpi.terminal import say_on_stderr

START_SECONDS = 5.0  # that rank 0 has to print an error; ranks start at different times


def await_root() -> str:
    """Let rank 0 print an error that all ranks may have; return the name of another rank that nobody has ended then.

    Before MPI has started, no rank knows of the errors of others.
    """
    _, rank, _ = launched()
    process.let_root_speak(rank, START_SECONDS)
    return f"rank {rank} on {os.uname().nodename}: " if rank else ""


def leave(message: str, code: int, name: str = "ees-mpi: ") -> NoReturn:
    """Print an error before MPI has started, and end all ranks."""
    say_on_stderr(f"{name}{await_root()}{message}\n")
    end_start(code)


def end_start(code: int) -> NoReturn:
    """Exit before MPI has started; the launcher ends the other ranks, which would wait for this one.

    Open MPI's mpirun and `srun --kill-on-bad-exit` do so after any code but 0. MPICH's needs this line of its protocol.
    """
    if launched()[2].startswith("a PMI"):
        process.await_reader()
        with contextlib.suppress(KeyError, ValueError, OSError):
            os.write(int(os.environ["PMI_FD"]), f"cmd=abort exitcode={code}\n".encode())
    sys.exit(code)
