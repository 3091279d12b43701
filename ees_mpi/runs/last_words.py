"""The last line of an interrupted run: what is saved, and how to continue it."""

import contextlib
import os
import shlex
from pathlib import Path

from ees_mpi.ranks import launched, process
from ees_mpi.terminal import plain


def how_to_continue(path: str | Path) -> str:
    """Return the end of a sentence about an interrupted run."""
    return f"and `ees-mpi resume {shlex.quote(str(path))}` continues the run"


class LastWords:
    """Tells the user on the terminal of mpirun what is saved, if mpirun ends the run.

    After Ctrl-C, Open MPI's mpirun sends SIGTERM to the ranks, discards all that they print, and kills them a moment
    later. So rank 0 writes to the terminal itself, if mpirun has one on this node.
    """

    def __init__(self, path: Path, generations: int):
        self._path, self.generations = path, generations  # generations: that are saved

    def __enter__(self) -> "LastWords":
        if launched()[0]:
            process.WHEN_TERMINATED.append(self.say)
        return self

    def __exit__(self, *error: object) -> None:
        process.WHEN_TERMINATED.clear()

    def say(self) -> None:
        """Write the line, once."""
        process.WHEN_TERMINATED.clear()
        line = f"ees-mpi: interrupted; {self.generations} generations are saved, {how_to_continue(self._path)}"
        with contextlib.suppress(OSError):
            terminal = os.open(f"/proc/{os.getppid()}/fd/2", os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                if os.isatty(terminal):
                    os.write(terminal, f"\n{plain(line)}\n".encode())
            finally:
                os.close(terminal)
