"""Processes of training jobs: finding them, and waiting for something that they do."""

import time
from collections.abc import Callable
from pathlib import Path

from ees_mpi import open_run
from ees_mpi.errors import RunFileError
from support.program import TIMEOUT

GRACE = 120.0  # seconds; it is over only if a test fails, and other programs may keep the cores busy
PAUSE = 0.05  # seconds between two looks, each of which takes milliseconds of a core that the job needs


def processes_with(mark: object) -> list[int]:
    """Return the processes whose command line has a mark, for example the path of a run file."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and str(mark).encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue  # it ended meanwhile
    return found


def all_ended(mark: object) -> bool:
    """Return whether all processes with a mark end: mpirun may end a moment before the last rank."""
    deadline = time.monotonic() + GRACE
    while (left := processes_with(mark)) and time.monotonic() < deadline:
        time.sleep(PAUSE)
    return not left


def rank_processes(out: Path) -> list[int]:
    """Return the processes that train a file, without mpirun."""
    return [pid for pid in processes_with(out) if "run" not in _program(pid)]


def _program(pid: int) -> str:
    """Return the name of the program of a process; "run" if the process has ended."""
    try:
        return Path(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()).name
    except OSError:
        return "run"


def committed(out: Path) -> int:
    """Return the number of committed generations of a run file, which may not exist yet."""
    try:
        with open_run(out) as run:
            return run.generations
    except RunFileError:
        return 0


def wait_until(happened: Callable[[], object]) -> None:
    """Look again and again until something has happened."""
    deadline = time.monotonic() + TIMEOUT
    while not happened():
        assert time.monotonic() < deadline, f"waited {TIMEOUT:.0f} s in vain"
        time.sleep(PAUSE)


def wait_for_text(path: Path) -> str:
    """Wait for a file with text in it, and return the text."""
    wait_until(lambda: path.exists() and path.read_text())
    return path.read_text()
