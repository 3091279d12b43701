"""From mpirun to the first rollout, against an mpirun of as many ranks that only load MPI and numpy; files opened."""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.parallel import Measurement, mpirun_environment, table

RANKS = 8
ROUNDS = 3
STARTED = Path(__file__).with_name("started.py")
PRESETS = ("interference-maxent", "cheetah-maxent-laptop")


def startup() -> dict[str, Measurement]:
    """Start 8 ranks of a toy and of a robot, a few times each."""
    bare = statistics.median(_bare() for _ in range(ROUNDS))
    results = {}
    for preset in PRESETS:
        starts = [first_rollout(preset, RANKS) for _ in range(ROUNDS)]
        median = statistics.median(start["seconds"] for start in starts)
        files = max(start["files"] for start in starts)
        cpu = statistics.median(start["cpu_s"] for start in starts)
        results[preset] = {"seconds": median, "bare_s": bare, "ratio": median / bare, "cpu_s": cpu, "files": files}
    return results


def first_rollout(preset: str, ranks: int) -> Measurement:
    """Return the seconds from mpirun until the last rank begins its first rollout, and the most files one opened."""
    with tempfile.TemporaryDirectory() as folder:
        settings = ["run.generations=1", f"population.size={2 * ranks}", "run.evaluate_mean_every=0"]
        words = [sys.executable, str(STARTED), "train", preset, "--out", f"{folder}/run.h5"]
        for setting in settings:
            words += ["--set", setting]
        start, used = time.time(), _cpu()
        done = subprocess.run(
            [str(Path(sys.executable).parent / "mpirun"), "-n", str(ranks), *words],
            capture_output=True,
            text=True,
            env={**mpirun_environment(), "EES_STARTED": folder, "TMPDIR": folder},
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        cpu = _cpu() - used
        notes = [json.loads(path.read_text()) for path in Path(folder).glob("*.json")]
    return {
        "seconds": max(note["clock"] for note in notes) - start,
        "files": max(note["files"] for note in notes),
        "ranks": len(notes),
        "cpu_s": cpu,
    }


def _cpu() -> float:
    """Return the CPU seconds of all programs that were run: where a machine is busy, they tell more than the clock."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _bare() -> float:
    """Time an mpirun of ranks that load MPI and numpy and meet once."""
    program = "import numpy; from mpi4py import MPI; MPI.COMM_WORLD.Barrier()"
    words = [str(Path(sys.executable).parent / "mpirun"), "-n", str(RANKS), sys.executable, "-c", program]
    start = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True, env=mpirun_environment())
    return time.perf_counter() - start


def show(results: dict[str, Measurement]) -> None:
    """Print the result for reading."""
    rows = [
        (
            "preset",
            f"{RANKS} ranks to the first rollout",
            "bare mpirun",
            "ratio",
            "CPU of the job",
            "files a rank opens",
        )
    ]
    for preset, r in results.items():
        seconds = [f"{r[key]:.1f} s" for key in ("seconds", "bare_s")]
        rows.append((preset, *seconds, f"{r['ratio']:.2f}", f"{r['cpu_s']:.1f} s", f"{r['files']:.0f}"))
    table(rows)
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
