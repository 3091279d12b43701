"""The job that is disturbed: starting it, finding its processes, seeing what it has committed, comparing bits."""

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

import numpy as np

from ees_mpi import Run, open_run
from ees_mpi.errors import RunFileError

BIN = Path(sys.executable).parent
VICTIM = Path(__file__).with_name("victim.py")
PATIENCE = 120.0  # seconds that anything here may take before it counts as hung
STALL_MINUTES = 0.3


def environment(folder: Path, plan: Sequence[dict[str, Any]] = ()) -> dict[str, str]:
    """Let mpirun start more ranks than cores, as root too, and leave what it leaves when killed in our folder."""
    names = {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "PRTE_MCA_hwloc_default_binding_policy": "none"}
    # By its process id: a later mpirun that is given the same one would refuse to start.
    names["TMPDIR"] = tempfile.mkdtemp(dir=folder)
    names["EES_CHAOS"] = json.dumps(list(plan))
    if os.getuid() == 0:
        names |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**os.environ, **names}


def words(out: Path, ranks: int, generations: int, ulfm: bool = False, **settings: object) -> list[str]:
    """The training command: small generations, folded all the time."""
    every = {"run.generations": generations, "population.size": 60, "run.fold_minutes": 0.003, **settings}
    line = [str(BIN / "mpirun"), *(["--with-ft", "ulfm"] if ulfm else []), "-n", str(ranks)]
    line += [sys.executable, str(VICTIM), "train", "interference-maxent", "--out", str(out), "--resume"]
    for key, value in every.items():
        line += ["--set", f"{key}={value}"]
    return line


def processes(out: Path) -> list[int]:
    """All processes of the job, launcher included."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(out).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def rank_processes(out: Path) -> dict[int, int]:
    """The process of each rank."""
    found = {}
    for pid in processes(out):
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        found |= {int(each[21:]): pid for each in variables if each.startswith(b"OMPI_COMM_WORLD_RANK=")}
    return found


def kill(pids: Sequence[int], number: int = signal.SIGKILL) -> None:
    """Send a signal to processes, some of which may be gone."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def until(happened: Callable[[], bool]) -> None:
    """Look again and again, without a pause, until something happens."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        if time.monotonic() > deadline:
            raise SystemExit("chaos: waited in vain; nothing moves")


def ended(out: Path, process: "subprocess.Popen[Any]") -> bool:
    """Wait until nothing of the job is left; where nothing has moved for a long time, kill it and say False."""
    deadline, last = time.monotonic() + PATIENCE, 0.0
    while process.poll() is None or processes(out):
        changed = max(_changed(out), _changed(Path(f"{out}.journal")))
        if changed != last:
            deadline, last = time.monotonic() + PATIENCE, changed
        if time.monotonic() > deadline:
            kill(processes(out))
            process.wait()
            return False
        time.sleep(0.05)
    return True


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def count(out: Path) -> int:
    """How many generations a reader sees; the file need not exist before the first start got that far."""
    if not out.exists():
        return 0
    with open_run(out) as run:
        return run.generations


def complete(out: Path) -> bool:
    """Whether the run file says that the run is done."""
    try:
        with open_run(out) as run:
            return run.complete
    except RunFileError:
        return False


def finish(out: Path, ranks: int, generations: int, folder: Path) -> None:
    """Go on with a run, undisturbed, until its end."""
    line = words(out, ranks, generations)
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL, env=environment(folder), timeout=10 * PATIENCE)


def differences(one: Run, other: Run) -> list[str]:
    """Name the arrays, but for the times, in which two runs differ."""
    names = [name for name in one.names if not name.startswith("seconds_")]
    differ = [name for name in names if np.asarray(one[name][:]).tobytes() != np.asarray(other[name][:]).tobytes()]
    ours, theirs = one.state_arrays(), other.state_arrays()
    return differ + [name for name in ours if ours[name].tobytes() != theirs[name].tobytes()]
