#!/usr/bin/env python3
"""Kill a training job again and again, resume it every time, and compare the finished file with an undisturbed one.

Kills come at random moments, at the instant a commit is being written, and at the instant the journal is being
folded; they hit the whole job or a single rank. Whatever is killed, the file must open, must never lose a committed
generation, and must end with the bits of the undisturbed run.

    tools/chaos.py --kills 30 --ranks 3
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

try:
    import numpy as np

    from ees_mpi import Run, open_run
except ImportError:  # no environment is active: take the checkout's own
    os.execv(python := str(Path(__file__).parents[1] / ".venv/bin/python"), [python, *sys.argv])

BIN = Path(sys.executable).parent
MOMENTS = ("at random", "in a commit", "in a fold", "in a commit", "in a fold", "while starting")
TARGETS = ("the job", "one rank")
PATIENCE = 60.0  # seconds that anything here may take before it counts as hung


def environment(folder: Path) -> dict[str, str]:
    """Let mpirun start more ranks than cores, as root too, and leave what it leaves when killed in our folder."""
    names = {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "PRTE_MCA_hwloc_default_binding_policy": "none"}
    # By its process id: a later mpirun that is given the same one would refuse to start.
    names["TMPDIR"] = tempfile.mkdtemp(dir=folder)
    if os.getuid() == 0:
        names |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**os.environ, **names}


def job(out: Path, ranks: int, generations: int) -> list[str]:
    """The words of the training command: small generations, folded all the time."""
    settings = [f"run.generations={generations}", "population.size=60", "run.fold_minutes=0.003"]
    words = [str(BIN / "ees-mpi"), "train", "interference-maxent", "--out", str(out), "--resume"]
    for setting in settings:
        words += ["--set", setting]
    return [str(BIN / "mpirun"), "-n", str(ranks), *words]


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


def await_moment(
    moment: str, out: Path, committed: int, process: subprocess.Popen[bytes], chance: random.Random
) -> None:
    """Return at the moment to kill, or when the job has ended by itself."""
    journal, folding = Path(f"{out}.journal"), Path(f"{out}.folding")
    if moment == "while starting":
        time.sleep(chance.uniform(0.1, 1.5))
        return
    until(lambda: count(out) > committed or process.poll() is not None)
    time.sleep(chance.uniform(0.0, 1.0))
    size = _size(journal)
    if moment == "in a commit":
        until(lambda: _size(journal) != size or process.poll() is not None)
    if moment == "in a fold":
        until(lambda: folding.exists() or process.poll() is not None)


def until(happened: Callable[[], bool]) -> None:
    """Look again and again, without a pause, until something happens."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        if time.monotonic() > deadline:
            raise SystemExit("chaos: waited in vain; nothing moves")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def kill(target: str, out: Path, chance: random.Random) -> None:
    """Kill with SIGKILL: everything, or one rank, whose launcher must then end the others."""
    pids = processes(out)
    if target == "one rank":
        ranks = [pid for pid in pids if b"run" not in _program(pid)]
        pids = [chance.choice(ranks)] if ranks else pids
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _program(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
    except OSError:
        return b"run"


def await_end(out: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until nothing of the job is left."""
    process.wait(timeout=PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while processes(out):
        if time.monotonic() > deadline:
            raise SystemExit(f"chaos: processes {processes(out)} are still running")
        time.sleep(0.05)


def torment(out: Path, ranks: int, generations: int, kills: int, chance: random.Random) -> Counter[str]:
    """Start and kill the job until it has been killed often enough; return what was done how often."""
    done: Counter[str] = Counter()
    committed = 0
    while sum(done.values()) < kills:
        process = subprocess.Popen(
            job(out, ranks, generations),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(out.parent),
        )
        moment, target = MOMENTS[sum(done.values()) % len(MOMENTS)], chance.choice(TARGETS)
        await_moment(moment, out, committed, process, chance)
        if process.poll() is not None:
            raise SystemExit(f"chaos: the job ended by itself with {process.returncode}; give it more --generations")
        kill(target, out, chance)
        await_end(out, process)
        done[f"SIGKILL of {target}, {moment}"] += 1
        kept = count(out)
        if kept < committed:
            raise SystemExit(f"chaos: {committed} generations were committed, and {kept} are left")
        if kept == committed and moment != "while starting":
            raise SystemExit(f"chaos: nothing was committed before the kill {moment}")
        committed = kept
    return done


def count(out: Path) -> int:
    """How many generations a reader sees; the file need not exist before the first start got that far."""
    if not out.exists():
        return 0
    with open_run(out) as run:
        return run.generations


def differences(one: Run, other: Run) -> list[str]:
    """Name the arrays, but for the times, in which two runs differ."""
    names = [name for name in one.names if not name.startswith("seconds_")]
    differ = [name for name in names if np.asarray(one[name][:]).tobytes() != np.asarray(other[name][:]).tobytes()]
    ours, theirs = one.state_arrays(), other.state_arrays()
    return differ + [name for name in ours if ours[name].tobytes() != theirs[name].tobytes()]


def main() -> None:
    """Run the whole torment and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--generations", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    options = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        out, whole = Path(folder, "tormented.h5"), Path(folder, "whole.h5")
        done = torment(out, options.ranks, options.generations, options.kills, random.Random(options.seed))
        reached = count(out)
        print(f"{reached} generations were committed under fire")
        for path, generations in ((out, reached + 20), (whole, reached + 20)):
            subprocess.run(
                job(path, options.ranks, generations),
                check=True,
                stdout=subprocess.DEVNULL,
                env=environment(out.parent),
            )
        with open_run(out) as tormented, open_run(whole) as undisturbed:
            differ = differences(tormented, undisturbed)
        for what, times in sorted(done.items()):
            print(f"{times:4d}  {what}")
        seconds = time.monotonic() - start
        print(f"{reached + 20} generations, {sum(done.values())} kills, {seconds:.0f} s: ", end="")
        print("the same bits as an undisturbed run" if not differ else f"DIFFERS in {', '.join(differ)}")
        sys.exit(bool(differ))


if __name__ == "__main__":
    main()
