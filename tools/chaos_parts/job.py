"""The job that is disturbed: start it, find its processes, count its committed generations, compare its bits."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mpirun
import numpy as np

from ees_mpi import Run, open_run, train
from ees_mpi.errors import RunFileError

PRESET = "interference-maxent"
PROGRAM = Path(__file__).with_name("self_kill.py")
PATIENCE = 120.0  # seconds without progress after which a job counts as hung
STALL_MINUTES = 0.3
PAUSE = 0.005  # seconds between two looks at a job, where no instant must be met


def environment(folder: Path, plan: Sequence[dict[str, Any]] = ()) -> dict[str, str]:
    """Return the environment of a job; `plan`: the deaths of ranks, for `self_kill.py`."""
    # A killed mpirun leaves a folder named after its process id; a later mpirun with the same id would not start.
    return mpirun.environment(TMPDIR=tempfile.mkdtemp(dir=folder), EES_CHAOS=json.dumps(list(plan)))


def settings_of(generations: int) -> dict[str, object]:
    """Return the keys that make small generations, with frequent folds of the journal."""
    return {"run.generations": generations, "population.size": 60, "run.fold_minutes": 0.003}


def words(out: Path, ranks: int, generations: int, **settings: object) -> list[str]:
    """Return the training command."""
    line = [mpirun.MPIRUN, "-n", str(ranks)]
    line += [sys.executable, str(PROGRAM), "train", PRESET, "--out", str(out), "--resume"]
    for key, value in {**settings_of(generations), **settings}.items():
        line += ["--set", f"{key}={value}"]
    return line


def processes(out: Path) -> list[int]:
    """Return all processes of the job, including the launcher."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(out).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]


def rank_processes(out: Path) -> dict[int, int]:
    """Return the process of each rank, by rank."""
    found: dict[int, int] = {}
    for pid in sorted(processes(out), reverse=True):
        with contextlib.suppress(OSError):
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            found |= {int(each[21:]): pid for each in variables if each.startswith(b"OMPI_COMM_WORLD_RANK=")}
    return found


def kill(pids: Sequence[int], number: int = signal.SIGKILL) -> None:
    """Send a signal to processes; some of them may have ended."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def until(happened: Callable[[], bool], pause: float = 0.0) -> None:
    """Return as soon as `happened` is true; `pause`: seconds between two looks, which leave the cores to the job."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        if time.monotonic() > deadline:
            raise SystemExit(f"chaos: the expected moment did not come within {PATIENCE:.0f} s")
        time.sleep(pause)


def ended(out: Path, process: "subprocess.Popen[Any]") -> bool:
    """Wait until all processes have ended; return False, and kill them, if the run file does not change for long."""
    deadline, last = time.monotonic() + PATIENCE, 0.0
    while process.poll() is None or processes(out):
        newest = max(changed(out), changed(Path(f"{out}.journal")))
        if newest != last:
            deadline, last = time.monotonic() + PATIENCE, newest
        if time.monotonic() > deadline:
            kill(processes(out))
            process.wait()
            return False
        time.sleep(0.05)
    return True


def changed(path: Path) -> float:
    """Return the time of the last change of a file; 0 if it does not exist."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def count(out: Path) -> int:
    """Return the number of committed generations; 0 if the file does not exist yet."""
    if not out.exists():
        return 0
    with open_run(out) as run:
        return run.generations


def complete(out: Path) -> bool:
    """Return whether the run file says that the run is complete."""
    try:
        with open_run(out) as run:
            return run.complete
    except RunFileError:
        return False


def finish(out: Path, generations: int) -> None:
    """Run or resume a run in this process, undisturbed, until it is complete: any number of ranks has the same bits."""
    with contextlib.redirect_stdout(None):
        train(PRESET, out, settings=settings_of(generations), resume=True).close()


def differences(one: Run, other: Run) -> list[str]:
    """Return the names of the arrays in which two runs differ; times do not count."""
    names = [name for name in one if not name.startswith("seconds_") and name != "slowest_rank"]
    differ = [name for name in names if np.asarray(one[name][:]).tobytes() != np.asarray(other[name][:]).tobytes()]
    ours, theirs = one.state_arrays(), other.state_arrays()
    return differ + [name for name in ours if ours[name].tobytes() != theirs[name].tobytes()]
