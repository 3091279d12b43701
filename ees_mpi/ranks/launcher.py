"""The launcher that started this process: mpirun, srun, or none."""

import functools
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

from ees_mpi.machine import LAUNCHERS

ORPHAN_CHECK_SECONDS = 5.0  # between two checks that the launcher still runs

LOCAL_SIZE = "OMPI_COMM_WORLD_LOCAL_SIZE"  # an environment variable with the number of processes on this node


def launched() -> tuple[int, int, str]:
    """Return the number of processes, the rank of this one, and the launcher; (0, 0, "") if there is no launcher."""
    for size, rank, launcher in LAUNCHERS:
        if os.environ.get(size, "").isdigit():
            if size == "PMI_SIZE" and os.environ[size] == os.environ.get("SLURM_STEP_NUM_TASKS"):
                launcher = "srun"  # with PMI
            return int(os.environ[size]), int(os.environ.get(rank, "0")), launcher
    return 0, 0, ""


def say_from_launcher(text: str) -> None:
    """Write to the standard error of the launcher: when it ends a job, it forwards no output of the ranks."""
    with suppress(OSError):
        file = os.open(f"/proc/{launcher_process()}/fd/2", os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_NONBLOCK)
        os.write(file, text.encode())
        os.close(file)


def launcher_process() -> int:
    """Return the process id of the launcher on this node: the nearest ancestor with its name, else the parent."""
    return _named_launcher() or os.getppid()


def _named_launcher() -> int:
    """Return the process id of the nearest ancestor with the name of a launcher; 0 if there is none."""
    pid = os.getppid()
    while pid > 1:
        before, _, after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        if before.partition("(")[2] in ("prterun", "prted", "mpirun", "mpiexec"):
            return pid
        pid = int(after.split()[1])
    return 0


@functools.cache  # once per process
def die_with_launcher() -> None:
    """Kill this rank soon after its launcher is gone; it may hang, and nothing else would end it."""
    threading.Thread(target=_wait_for_end_of, args=(os.getppid(),), daemon=True).start()


def _wait_for_end_of(launcher: int) -> None:
    while os.getppid() == launcher:
        time.sleep(ORPHAN_CHECK_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def ranks_gone() -> bool:
    """Return True if the launcher has fewer processes on this node than it started; False if that is unknown."""
    with suppress(OSError, ValueError):
        started, launcher = int(os.environ.get(LOCAL_SIZE, "0")), _named_launcher()
        tasks = Path(f"/proc/{launcher}/task").iterdir()
        return 0 < sum(len((task / "children").read_text().split()) for task in tasks) < started
    return False
