#!/usr/bin/env python3
"""Measure one piece of the comparison for one library, and print JSON. `run.sh` calls it for all of them.

    measure.py PIECE LIBRARY RUN        RUN: 0 or 1; each has its own seeds

rollout   steps of Gymnasium's HalfCheetah-v5 per CPU second, and the share of time inside MuJoCo
update    a generation of N = 10,000, D = 75,000 whose rollouts cost nothing, on one core, and its memory
bits      the same run on other numbers of workers: is it the same network?
kill      SIGKILL twice, continue: is it the network of a run without kills? What lies on disk?
walk      the walker with equal rollouts
"""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import walker
from libraries import LIBRARIES, EvoTorch, Library, Pyribs, free
from rollouts import time_rollouts

Found = dict[str, Any]
HERE = Path(__file__).resolve()
CORES = sorted(os.sched_getaffinity(0))
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
SIZE, PARAMETERS = 10_000, 75_000
SIZES = {"cma": 1_000}  # it keeps several copies of the population in double precision
WALKS = {"size": 200, "generations": 60, "offspring": 2_000, "seeds": 5}
CHOICE = (97, 98, 99)  # the seeds on which a learning rate is chosen: with one seed, chance chooses
KILLS, KILL_GENERATIONS = 2, 24


def again(*words: object, cores: int = 1, ranks: int = 0) -> list[str]:
    """Return the command of this script in a new process on some cores, or under mpirun."""
    pinned = ["taskset", "-c", ",".join(map(str, CORES[:cores]))]
    launched = ["mpirun", "-n", str(ranks)] if ranks else []
    return [*pinned, *launched, sys.executable, str(HERE), *map(str, words)]


def answer(*words: object, threads: int = 1, folder: str = ".", flags: str = "", **more: int) -> Found:
    """Return the JSON that this script prints in a new process, or why there is none; `flags`: of JAX."""
    variables = {**os.environ, **dict.fromkeys(THREADS, str(threads)), **({"XLA_FLAGS": flags} if flags else {})}
    done = subprocess.run(again(*words, **more), cwd=folder, env=variables, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        last = (done.stderr.strip().splitlines() or ["killed"])[-1]
        return {"failed": f"exit code {done.returncode}: {last[-200:]}"}
    return dict(json.loads(lines[-1]))


def one_update(name: str, run: int) -> Found:
    """Time generations in this process, after one that compiles and fills caches."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_DATA, (memory * 9 // 10,) * 2)  # an error, and not the end of other programs
    size = SIZES.get(name, SIZE)
    library = LIBRARIES[name](free, np.zeros(PARAMETERS, np.float32), size, 0.02, run)
    for _ in range(2):
        start = time.process_time()
        library.step()
        spent = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"size": size, "cpu_s": spent, "peak_bytes": peak}


class Pooled:
    """Evaluates with some worker processes, each with its share of the rows."""

    def __init__(self, workers: int):
        from multiprocessing import get_context

        self.workers, self.pool = workers, get_context("fork").Pool(workers)

    def __call__(self, z: Any, xp: Any = np) -> Any:
        return np.concatenate(self.pool.map(walker.walk, np.array_split(np.asarray(z), self.workers)))


def compare_bits(name: str, run: int) -> Found:
    """Return whether runs on 2 and 3 workers learn the same network as on 1; for evosax, 2 cores and 2 devices."""
    digests = []
    for workers in (1, 2, 3):
        cores = min(workers, len(CORES))
        more: Found = {"ranks": workers} if name.startswith("ees_mpi") else {"threads": cores}
        if name == "evosax" and workers == 3:
            more["flags"] = "--xla_force_host_platform_device_count=2"
        digests.append(answer("one-digest", name, run, workers, cores=cores, **more))
        if "failed" in digests[-1]:
            return digests[-1]
    return {task: [each[task] == digests[0][task] for each in digests[1:]] for task in digests[0]}


def one_digest(name: str, run: int, workers: int) -> Found:
    """Return hashes of a walker and of a large network after a few generations."""
    kind = LIBRARIES[name]
    evaluate = Pooled(workers) if name in ("pyribs", "cma") else walker.walk
    EvoTorch.actors = workers if workers > 1 else 0
    digests = {}
    tasks: dict[str, tuple[Any, np.ndarray, int, int]] = {
        "walker": (evaluate, walker.start(run), WALKS["size"], 10),
        "large": (free, np.zeros(PARAMETERS, np.float32), 400, 3),
    }
    for task, (evaluate, mean, size, generations) in tasks.items():
        library = kind(evaluate, mean, size, walker.STD, run)
        for _ in range(generations):
            library.step()
        digests[task] = library.digest()
    return digests


def try_kills(name: str, run: int) -> Found:
    """Return whether a run that is killed and continued ends like one that is not, and what lies on disk."""
    draw = random.Random(run)
    with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as broken:
        expected = answer("one-run", name, run, "log", folder=whole)
        files = {path.relative_to(whole): path.stat().st_size for path in Path(whole).rglob("*") if path.is_file()}
        for kill in range(KILLS):
            command = again("one-run", name, run, "save")
            child = subprocess.Popen(command, cwd=broken, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            assert child.stdout is not None
            for line in child.stdout:
                if line.strip() == str(7 * (kill + 1)):
                    time.sleep(draw.random() / 50)
                    break
            child.send_signal(signal.SIGKILL)
            child.wait()
        got = answer("one-run", name, run, "save", folder=broken)
    return {
        "same": got.get("digest") == expected.get("digest"),
        "continued_at": got.get("continued_at"),
        "disk_files": len(files),
        "disk_bytes": sum(files.values()),
        "disk_names": sorted({path.parts[0] for path in files}),
        "failed": got.get("failed") or expected.get("failed"),
    }


def one_run(name: str, run: int, how: str) -> Found:
    """Train a walker here; "log": with the library's own files; "save": save each generation, or continue."""
    library = LIBRARIES[name](walker.walk, walker.start(run), WALKS["size"], walker.STD, run)
    begin = 0
    if how == "save":
        begin = library.load()
    else:
        library.log()
    for generation in range(begin + 1, KILL_GENERATIONS + 1):
        library.step()
        if how == "save":
            library.save(generation)
        print(generation, flush=True)
    return {"digest": library.digest(), "continued_at": begin}


def walk(name: str, run: int) -> Found:
    """Train the walker with several seeds; measure offspring of what was learned."""
    first = Path(f"parts/walk-{name}-0.json")  # the second run takes the learning rate that the first has chosen
    known = json.loads(first.read_text())["rate"] if run and first.exists() else None
    rate = known or max(LIBRARIES[name].rates, key=lambda each: score(name, each))
    found: Found = {"rate": rate, "steps_per_s": [], "offspring": [], "archive": []}
    for seed in range(run * WALKS["seeds"], (run + 1) * WALKS["seeds"]):
        library, speed = trained(name, seed, rate)
        found["steps_per_s"].append(speed)
        found["offspring"].append(walker.measures(offspring(library, seed)))
        if isinstance(library, Pyribs):
            places = library.places()
            found["archive"].append({"networks": len(places), **walker.measures(places)})
    return found


def score(name: str, rate: float) -> float:
    """Return how well a library does its own task with a learning rate: the sum over the seeds of the choice."""
    return sum(goal(name, trained(name, seed, rate)[0]) for seed in CHOICE)


def trained(name: str, seed: int, rate: float) -> tuple[Library, float]:
    """Return a trained library, and its steps per CPU second without its first generation."""
    library = LIBRARIES[name](walker.walk, walker.start(seed), WALKS["size"], walker.STD, seed, rate)
    library.step()
    start = time.process_time()
    for _ in range(WALKS["generations"] - 1):
        library.step()
    steps = WALKS["size"] * walker.STEPS * (WALKS["generations"] - 1)
    return library, steps / (time.process_time() - start)


def offspring(library: Library, seed: int) -> np.ndarray:
    """Return the final places of mutations of the learned network."""
    centre, generator = library.centre(), np.random.default_rng(seed)
    noise = generator.standard_normal((WALKS["offspring"], len(centre)), dtype=np.float32)
    return np.asarray(walker.walk(centre + np.float32(walker.STD) * noise))


def goal(name: str, library: Library) -> float:
    """Return how well a library has done its own task: entropy (MaxEnt), a full archive (pyribs), far along x."""
    places = library.places() if isinstance(library, Pyribs) else offspring(library, 99)
    if name in ("ees_mpi-maxent", "pyribs"):
        return float(np.mean(walker.measures(places)["entropy"]))
    return float(places[:, 0].mean())


PIECES: dict[str, Callable[..., Found]] = {
    "rollout": time_rollouts,
    "update": lambda *words: answer("one-update", *words),  # in a new process on one core
    "bits": compare_bits,
    "kill": try_kills,
    "walk": walk,
    "one-update": one_update,
    "one-digest": one_digest,
    "one-run": one_run,
}


def main() -> None:
    """Run one piece."""
    piece, name, run, *more = sys.argv[1:]
    if piece in ("rollout", "walk"):
        os.sched_setaffinity(0, CORES[:1])
    found = PIECES[piece](name, int(run), *(int(word) if word.isdigit() else word for word in more))
    if not piece.startswith("one-"):
        found["version"] = LIBRARIES[name].version()
    if int(os.environ.get("OMPI_COMM_WORLD_RANK", "0")) == 0:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
