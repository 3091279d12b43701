"""Thread counts, set before numpy loads; and a fingerprint of all that a process computes with.

This module does not import numpy at the top: `pin_threads` must run first.
"""

import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from ees_mpi.errors import LaunchError
from ees_mpi.version import __version__

PROGRAM = f"ees_mpi {__version__}"
BLAS_LIBRARIES = ("OPENBLAS", "OMP", "MKL", "BLIS", "NUMEXPR")
THREAD_VARIABLES = [f"{library}_NUM_THREADS" for library in BLAS_LIBRARIES] + ["VECLIB_MAXIMUM_THREADS"]

# With these settings, every x86-64 CPU with AVX2 computes the same bits. numpy < 2.4 has other names for the features;
# each version ignores the names that it does not know.
PORTABLE = {
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL",
    "ATEN_CPU_CAPABILITY": "avx2",  # torch and its libraries
    "MKL_CBWR": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
}

# The keys of the fingerprint that must be equal for two processes to compute the same bits.
BITS_DEPEND_ON = ("ees_mpi", "python", "numpy", "cpu_features", "blas", "libc", "pybullet", "mujoco", "torch")
BY_CPU = ("cpu_features", "blas")  # those that depend on the CPU
# The keys of a GPU job: the bits of rollouts on a GPU depend on them, too.
GPU_BITS_DEPEND_ON = ("gpu", "gpu_driver", "warp", "mujoco_warp", "gpu_kernels")
GPU_KERNELS = "2"  # the version of our own kernels: raise it whenever they compute other bits
OWN_CODE = "own_code "  # begins the key of a module of the user in a fingerprint
# Environment variables with the number of processes and the rank of this one, most specific first.
LAUNCHERS = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "Open MPI's mpirun"),
    ("PMI_SIZE", "PMI_RANK", "a PMI launcher (mpiexec of MPICH or Intel MPI)"),
    ("PALS_NRANKS", "PALS_RANKID", "mpiexec of Cray PALS"),
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun"),
)


def pin_threads() -> None:
    """Give this process one BLAS thread, even if the environment asks for more."""
    for name in THREAD_VARIABLES:
        os.environ[name] = "1"


def cure(key: str) -> str:
    """Return what makes ranks equal that differ in a key of the fingerprint."""
    if key in BY_CPU:
        lines = "".join(f"\n    export {name}='{value}'" for name, value in PORTABLE.items())
        return (
            "Ask for nodes of one kind (--constraint under SLURM), or export these lines on all ranks: then every x86 "
            f"CPU with AVX2 computes the same bits, a little slower{lines}"
        )
    return "Install the same packages for all ranks"


@contextmanager
def one_thread() -> Iterator[None]:
    """Give this process one BLAS thread in a block; afterwards all libraries have their former number of threads."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    several_ranks = any(os.environ.get(size, "1") not in ("0", "1") for size, _, _ in LAUNCHERS)
    if not several_ranks:  # each rank would start as many threads as the node has cores
        import numpy  # noqa: F401  (its BLAS loads with the user's number of threads, to which it returns)
    pin_threads()  # for libraries that the block loads
    import threadpoolctl

    pools = threadpoolctl.ThreadpoolController()
    known = {library.filepath for library in pools.lib_controllers}
    limits = pools.limit(limits=1)
    try:
        yield
    finally:
        limits.restore_original_limits()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        if not several_ranks:
            wanted = (before["OMP_NUM_THREADS"] or "").partition(",")[0]  # "4,2": for nested regions
            usual = int(wanted) if wanted.isdigit() else len(os.sched_getaffinity(0))
            for library in threadpoolctl.ThreadpoolController().lib_controllers:
                if library.filepath not in known:  # the block has loaded it
                    library.set_num_threads(usual)


def check_threads() -> None:
    """Raise a LaunchError if BLAS uses more than one thread: a threaded sum has other bits."""
    _pools().limit(limits=1)
    for pool in _pools().info():
        if pool["num_threads"] != 1:
            raise LaunchError(
                f"{pool['internal_api']} runs {pool['num_threads']} threads and cannot be set to 1; "
                "set OPENBLAS_NUM_THREADS=1 and OMP_NUM_THREADS=1 before starting"
            )


def fingerprint(torch: bool = False) -> dict[str, str]:
    """Return the versions of packages, the CPU and its features, and the BLAS; `torch`: whether torch is used."""
    import numpy as np

    config: Any = np.show_config(mode="dicts")
    simd, system = config.get("SIMD Extensions", {}), os.uname()  # platform.platform() starts a process
    return {
        "ees_mpi": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "h5py": version("h5py"),
        "pybullet": version("pybullet"),
        "mujoco": version("mujoco"),
        "torch": version("torch") if torch else "none",
        "mpi4py": version("mpi4py"),
        "cpu": _cpu_model(),
        "cpu_features": " ".join([*simd.get("baseline", []), *simd.get("found", [])]),
        "blas": _blas(),
        "libc": " ".join(platform.libc_ver()),
        "platform": "-".join((system.sysname, system.release, system.machine, "with", "".join(platform.libc_ver()))),
    }


@lru_cache
def commit() -> str:
    """Return the commit of the checkout that holds the package, as git says it; else the version of the package."""
    import subprocess

    top = Path(__file__).resolve().parents[1]
    if (top / ".git").exists():
        try:
            words = ["git", "-C", str(top), "rev-parse", "--verify", "-q", "HEAD"]
            asked = subprocess.run(words, capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):  # there is no git, or it waits for a disk
            return __version__
        return asked.stdout.strip() or __version__
    return __version__


def gpu_packages() -> dict[str, str]:
    """Return the versions of the packages that compute on a GPU, and of our own kernels."""
    packages = {"torch": version("torch"), "warp": version("warp-lang"), "mujoco_warp": version("mujoco-warp")}
    return {**packages, "gpu_kernels": GPU_KERNELS}


def differences(mine: dict[str, str], other: dict[str, str]) -> list[str]:
    """Return the differences between two fingerprints that can change bits, in keys that both have."""
    files = (key for key in mine if key.startswith(OWN_CODE))
    return [
        f"{key} is {mine[key]!r} here and {other[key]!r} there"
        for key in ("commit", *BITS_DEPEND_ON, *GPU_BITS_DEPEND_ON, *files)
        if key in mine and key in other and mine[key] != other[key]
    ]


def own_code(found: Mapping[str, str]) -> dict[str, str]:
    """Return the digests of the user's modules in a fingerprint, by module."""
    return {key.removeprefix(OWN_CODE): digest for key, digest in found.items() if key.startswith(OWN_CODE)}


def code_change(here: Mapping[str, str], there: Mapping[str, str], since: str) -> str:
    """Return a sentence that modules of the user have changed; empty if none has.

    here, there: their digests; a module that a side lacks does not count, because commands import few
    """
    names = (name for name in here if there.get(name, here[name]) != here[name])
    changed = ", ".join(f"{name} ({there[name]}, now {here[name]})" for name in names)
    return f"your code has changed since {since}: {changed}" if changed else ""


def version(package: str) -> str:
    """Return the version of an installed package, or "none"."""
    return _installed().get(_normal(package), "none")


def _normal(package: str) -> str:
    return re.sub(r"[-_.]+", "_", package).lower()


@lru_cache
def _installed() -> dict[str, str]:
    """Return the versions of all packages, by the names of the folders `NAME-VERSION.dist-info` that installers make.

    `importlib.metadata` would import forty modules, and open a file for each package: on every rank.
    """
    found = {}
    for folder in reversed(sys.path):  # the first folder counts
        with suppress(OSError):
            for name in os.listdir(folder or "."):
                package, _, number = name.removesuffix(".dist-info").removesuffix(".egg-info").partition("-")
                if number and name.endswith("-info"):
                    found[_normal(package)] = number.partition("-")[0]
    return found


@lru_cache  # numpy keeps the BLAS with which it was loaded; a search asks the disk for the path of every loaded library
def _pools() -> Any:
    """Return the libraries with threads that were loaded at the first call, that of numpy among them."""
    import numpy  # noqa: F401
    import threadpoolctl

    return threadpoolctl.ThreadpoolController()


def _blas() -> str:
    """Return the BLAS of numpy, with its version and the CPU that it computes for."""
    pools = [pool for pool in _pools().info() if pool["user_api"] == "blas"]
    # scipy, and torch on ARM, bring a BLAS too; it must not matter whether they happen to be loaded.
    pools = [pool for pool in pools if not {"scipy.libs", "torch", "torch.libs"} & set(pool["filepath"].split("/"))]
    blas = {f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '')}" for pool in pools}
    return ", ".join(sorted(blas)) or "none"


def _cpu_model() -> str:
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
