"""Seconds from mpirun to the first rollout, against ranks that only load MPI and numpy; files that a rank opens."""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import mpirun
from bench_parts.on_ranks import Measurement, table

RANKS = 8
ROUNDS = 3
PROGRAM = Path(__file__).with_name("record_start.py")
PRESETS = {"interference-maxent": 2**20, "cheetah-maxent-laptop": 2**24}  # the size of the noise table of each


def startup() -> dict[str, Measurement]:
    """Start 8 ranks of the interference task and of the cheetah, a few times each."""
    bare = statistics.median(_bare() for _ in range(ROUNDS))
    results = {}
    for preset, noise in PRESETS.items():
        starts = [first_rollout(preset, RANKS, noise) for _ in range(ROUNDS)]
        median = statistics.median(start["seconds"] for start in starts)
        files = max(start["files"] for start in starts)
        cpu = statistics.median(start["cpu_s"] for start in starts)
        results[preset] = {"seconds": median, "bare_s": bare, "ratio": median / bare, "cpu_s": cpu, "files": files}
    return results


def first_rollout(preset: str, ranks: int, noise: int) -> Measurement:
    """Return the seconds until the last rank begins its first rollout, and the largest number of opened files."""
    with tempfile.TemporaryDirectory() as folder:
        settings = [
            "run.generations=1",
            f"population.size={2 * ranks}",
            "run.evaluate_mean_every=0",
            f"noise.size={noise}",
        ]
        words = [sys.executable, str(PROGRAM), "train", preset, "--out", f"{folder}/run.h5"]
        for setting in settings:
            words += ["--set", setting]
        start, used = time.time(), _cpu()
        done = subprocess.run(
            [mpirun.MPIRUN, "-n", str(ranks), *words],
            capture_output=True,
            text=True,
            env=mpirun.environment(EES_STARTED=folder, TMPDIR=folder),
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
    """Return the CPU seconds of all finished child processes; they mean more than the clock on a busy machine."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _bare() -> float:
    """Return the seconds of ranks that load MPI and numpy and meet at one barrier."""
    program = "import numpy; from mpi4py import MPI; MPI.COMM_WORLD.Barrier()"
    words = [mpirun.MPIRUN, "-n", str(RANKS), sys.executable, "-c", program]
    start = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True, env=mpirun.environment())
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
