"""Peak memory and seconds of the commands that read a run file of 2 GB: `info`, `report`, `watch`, `export`.

The file holds invented numbers of the ant at the paper's scale: 10,000 individuals, 75,272 parameters.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ees_mpi import config as configs
from ees_mpi import machine
from ees_mpi.generation.costs import row_bytes
from ees_mpi.generation.state import first_state
from ees_mpi.store import layout
from ees_mpi.store.reader import open_run
from ees_mpi.store.writer import RunWriter

SIZE = 2e9  # bytes
LIMIT = 500e6  # of memory
COMMANDS = (["info"], ["watch", "--once"], ["report"], ["export", "--csv"])
# The process reports its own peak: the number that a parent process gets includes the parent's memory.
PROGRAM = """
import atexit, sys
from ees_mpi.cli.main import main
def tell():
    with open("/proc/self/status") as lines:
        sys.stderr.write(next(line for line in lines if line.startswith("VmHWM")))
atexit.register(tell)
main()
"""


def make(path: Path, generations: int | None = None, settings: tuple[str, ...] = ()) -> int:
    """Write a run file of invented numbers, of 2 GB by default; return the number of generations."""
    sample = configs.load("ant-maxent", settings)
    count = generations or int(SIZE / row_bytes(sample)) + 1
    config = configs.load("ant-maxent", [*settings, f"run.generations={count}"])
    writer = RunWriter.create(path, config, first_state(config).arrays())
    writer.begin_session(0, 550, 14, machine.fingerprint())
    writer.close()
    sys.path.append(str(Path(__file__).parents[2] / "tests"))
    from support.run_files import renew

    with h5py.File(path, "r+") as file:
        group = file["generations"]
        group[layout.GENERATION].resize(count, axis=0)
        group[layout.GENERATION][:] = np.arange(count)
        for name in (*layout.present(config), *layout.CHAIN):
            group[name].resize(count, axis=0)
        for generation in range(count):
            for name, value in _row(config, generation).items():
                group[name][generation] = value
        file["final/generation"][...] = count
        renew(file)
    return count


def _row(config: Any, generation: int) -> dict[str, Any]:
    """Return one invented generation: a ring of behaviours that widens."""
    generator = np.random.default_rng(generation)
    size, parameters = config.population.size, config.task.parameters
    angle, reach = generator.uniform(0, 2 * np.pi, size), generator.normal(1 + 0.01 * generation, 0.2, size)
    behavior = np.stack([reach * np.cos(angle), reach * np.sin(angle)], axis=1)
    distance = np.abs(reach)
    return {
        "behavior": behavior,
        "fitness": behavior[:, 0],
        "length": np.full(size, 1000),
        "valid": np.ones(size),
        "offset": generator.integers(0, config.noise.size - parameters, size),
        "sign": np.tile([1, -1], size // 2),
        "parent": np.zeros(size),
        "mean": generator.standard_normal((1, parameters), np.float32),
        "observation_std": np.ones(config.task.observation_dim),
        "behavior_variance": behavior.var(axis=0),
        "entropy": np.log(1 + generation),
        "distance_mean": distance.mean(),
        "distance_max": distance.max(),
        "fitness_max": behavior[:, 0].max(),
        "seconds_evaluate": 18.0,
        "seconds_evaluate_mean": 17.5,
        "seconds_evaluate_max": 18.0,
        "seconds_clock": 1e9 + 18.0 * generation,
    }


def large() -> list[dict[str, Any]]:
    """Write the file, run each command on it, and return the costs of each."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = Path(folder, "large.h5")
        start = time.perf_counter()
        generations = make(path)
        rows: list[dict[str, Any]] = [
            {
                "what": "the file",
                "bytes": path.stat().st_size,
                "generations": generations,
                "seconds": time.perf_counter() - start,
            }
        ]
        start = time.perf_counter()
        open_run(path).close()
        rows.append(
            {"what": "open_run", "seconds": time.perf_counter() - start, "bytes": 0, "generations": generations}
        )
        rows += [_run_command(path, words) for words in COMMANDS]
    return rows


def _run_command(path: Path, words: list[str]) -> dict[str, Any]:
    command = [sys.executable, "-c", PROGRAM, words[0], str(path), *words[1:]]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONIOENCODING": "utf-8"})
    taken = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(done.stderr)
    peak = 1024 * int(done.stderr.split("VmHWM:")[1].split()[0])
    return {"what": " ".join(words), "seconds": taken, "peak_bytes": peak, "under_limit": peak < LIMIT}


def show(rows: list[dict[str, Any]]) -> None:
    """Print the rows as a table."""
    for row in rows:
        text = f"{row['what']:20} {row['seconds']:8.2f} s"
        if "bytes" in row:
            print(f"{text}   {row['bytes'] / 1e9:.2f} GB, {row['generations']} generations")
        else:
            verdict = "under" if row["under_limit"] else "OVER"
            print(f"{text}   {row['peak_bytes'] / 1e6:.0f} MB at most, {verdict} {LIMIT / 1e6:.0f}")
