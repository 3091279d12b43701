"""The end of a rank that is refused before MPI has started. This module imports no numpy."""

import contextlib
import os
import signal
import sys
import time
from typing import NoReturn

from ees_mpi.ranks import process
from ees_mpi.ranks.process import launched
from ees_mpi.terminal import say_on_stderr

MAX_MESSAGE = 2000  # characters of a message
ROOT_SECONDS = 5.0  # that rank 0 has to print an error of the command line


def _place_on_node() -> int:
    names = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID", "SLURM_LOCALID")
    found = next((os.environ[name] for name in names if name in os.environ), "")
    return int(found) if found.isdigit() else 0


def await_root(code: int, of_words: bool) -> str:
    """Let rank 0 print an error that it has, too, and end this rank; return the name of a rank that has it alone.

    of_words: the words of the command line are wrong, which are those of rank 0, too

    Before MPI has started, no rank knows of the errors of others. srun may let all ranks live: then a rank of each node
    prints an error that the node may have alone, such as a missing package.
    """
    _, rank, launcher = launched()
    if not rank:
        return ""
    for number in process.settable([signal.SIGTERM]):
        signal.signal(number, signal.SIG_DFL)
    time.sleep(ROOT_SECONDS + process.turn(rank, _place_on_node()))
    if launcher == "srun" and (of_words or _place_on_node()):
        sys.exit(code)
    return f"rank {rank} on {os.uname().nodename}: "


def leave(message: str, code: int, name: str = "ees-mpi: ", of_words: bool = False) -> NoReturn:
    """Print an error before MPI has started, once, and end all ranks; `of_words`: all ranks have it."""
    name += await_root(code, of_words)
    if name and len(message) > MAX_MESSAGE:
        message = f"{message[: MAX_MESSAGE // 2]} ... {message[-MAX_MESSAGE // 2 :]}"
    say_on_stderr(f"{name}{message}\n")
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
