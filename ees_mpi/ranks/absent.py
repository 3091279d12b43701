"""The ranks that do not come to the start of MPI.

A rank that waits in MPI_Init cannot run Python: MPI has no time limit, and mpi4py holds Python's lock. So a child of
one rank of each node waits beside it. After the time limit it looks which ranks of its node are missing, and names
them.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ees_mpi.machine import LAUNCHERS
from ees_mpi.ranks.process import START_MINUTES, die_with_parent, launched
from ees_mpi.terminal import say_on_stderr

LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID", "SLURM_LOCALID")
PROC = Path("/proc")


@contextmanager
def named_absent(minutes: float) -> Iterator[None]:
    """Name the ranks of this node that are missing if a block takes longer; the first rank of each node does it."""
    if not next((os.environ[name] == "0" for name in LOCAL_RANKS if name in os.environ), launched()[1] == 0):
        yield
        return
    launcher, child = os.getppid(), os.fork()
    if not child:
        die_with_parent()
        time.sleep(60 * minutes)
        missing = absent(launcher)
        if missing or launched()[1] == 0:
            say_on_stderr(f"ees-mpi: {message(minutes, missing)}\n")
        os._exit(0)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def message(minutes: float, missing: list[str]) -> str:
    """Return the message of a node; missing: its ranks that have not come."""
    node = os.uname().nodename
    who = f"missing on {node}: {', '.join(missing)}" if missing else f"all ranks on {node} wait in MPI_Init"
    all_ranks = f"MPI has not started on all {launched()[0]} ranks within {minutes:g} minutes"
    return f"{all_ranks}; {who}. {START_MINUTES} sets another limit"


def absent(launcher: int) -> list[str]:
    """Return the ranks that a launcher has started here, and that are stopped or have not loaded MPI, as words."""
    found = {}
    for folder in PROC.glob("[0-9]*"):
        with suppress(OSError, StopIteration):  # the process has ended, or is no rank
            name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
            state, parent = rest.split()[:2]
            if int(parent) != launcher:
                continue
            variables = dict(word.partition("=")[::2] for word in (folder / "environ").read_text().split("\0"))
            rank = int(next(variables[key] for _, key, _ in LAUNCHERS if key in variables))
            if state == "T":
                found[rank] = f"rank {rank} is stopped"
            elif "libmpi" not in (folder / "maps").read_text():
                found[rank] = f"rank {rank} has not loaded MPI (process {folder.name}, {name})"
    return [found[rank] for rank in sorted(found)]
