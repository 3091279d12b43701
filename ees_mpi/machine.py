"""Thread counts, set before numpy loads; and a fingerprint of all that a process computes with.

This module does not import numpy at the top: `pin_threads` must run first.
"""

import base64
import glob
import hashlib
import importlib.util
import math
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
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
BITS_DEPEND_ON = (
    *("ees_mpi", "python", "numpy", "cpu_features", "blas", "libm", "pybullet", "mujoco", "torch"),
    *("pybullet_build", "mujoco_build"),
)
BY_CPU = ("cpu_features", "blas", "libm")  # those that depend on the CPU
# The keys of a GPU job: the bits of rollouts on a GPU depend on them, too.
GPU_BITS_DEPEND_ON = ("gpu", "gpu_driver", "warp", "mujoco_warp", "gpu_kernels")
GPU_KERNELS = "2"  # the version of our own kernels: raise it whenever they compute other bits
OWN_CODE = "own_code "  # begins the key of a module of the user in a fingerprint
SHOWN = 3  # changed files of the user; a message only counts the others
# Files of older versions lack the digests, and jobs on CPUs the GPU, which is no difference.
OPTIONAL_KEYS = ("pybullet_build", "mujoco_build", *GPU_BITS_DEPEND_ON)

# The library of each physics engine, relative to the folder in which its package is installed.
LIBRARIES = {"pybullet": "pybullet.*so", "mujoco": "mujoco/libmujoco.*"}

DIGITS = 12  # of the digest of a library

# Environment variables with the number of processes and the rank of this one, most specific first.
LAUNCHERS = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "Open MPI's mpirun"),
    ("PMI_SIZE", "PMI_RANK", "a PMI launcher (mpiexec of MPICH or Intel MPI)"),
    ("PALS_NRANKS", "PALS_RANKID", "mpiexec of Cray PALS"),
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun"),
)

SHARED_MEMORY = "/dev/shm"


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
    import numpy  # noqa: F401  (loads the BLAS that is checked)
    import threadpoolctl

    pools = threadpoolctl.ThreadpoolController()  # one search for libraries: it takes milliseconds
    pools.limit(limits=1)
    for pool in pools.info():
        if pool["num_threads"] != 1:
            raise LaunchError(
                f"{pool['internal_api']} runs {pool['num_threads']} threads and cannot be set to 1; "
                "set OPENBLAS_NUM_THREADS=1 and OMP_NUM_THREADS=1 before starting"
            )


def check_room(need: int, host: str) -> None:
    """Raise a LaunchError if shared memory is too small: the kernel would kill this process without a message."""
    free = shutil.disk_usage(SHARED_MEMORY).free if os.path.isdir(SHARED_MEMORY) else need
    if need > free:
        raise LaunchError(
            f"the noise table needs {need / 2**20:.0f} MiB of shared memory on {host}, but {SHARED_MEMORY} has "
            f"{free / 2**20:.0f} MiB free; set noise.size to at most {free // 4}, or give the machine more "
            "(containers: --shm-size)"
        )


def fingerprint(torch: bool = False) -> dict[str, str]:
    """Return versions, CPU, BLAS and a digest of the C library's results; `torch`: whether torch is used."""
    import numpy as np

    config: Any = np.show_config(mode="dicts")
    simd = config.get("SIMD Extensions", {})
    return {
        "ees_mpi": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "h5py": version("h5py"),
        "pybullet": version("pybullet"),
        "pybullet_build": _build("pybullet"),
        "mujoco": version("mujoco"),
        "mujoco_build": _build("mujoco"),
        "torch": version("torch") if torch else "none",
        "mpi4py": version("mpi4py"),
        "cpu": _cpu_model(),
        "cpu_features": " ".join([*simd.get("baseline", []), *simd.get("found", [])]),
        "blas": _blas(),
        "libm": f"{' '.join(platform.libc_ver())} {_libm_digest()}",
        "platform": platform.platform(),
    }


def commit(package: Path = Path(__file__).parent) -> str:
    """Return the commit of the checkout that holds the package; if it was installed, its version.

    The files of git are read, because git may be missing, and must neither wait nor print. A package that was installed
    into the folder of another repository does not have its commit.
    """
    top = package.resolve().parent
    try:
        if 'name = "ees_mpi"' in (top / "pyproject.toml").read_text(encoding="utf-8"):
            return _commit_of(top / ".git")
    except (OSError, ValueError, StopIteration):
        pass
    return __version__


def _commit_of(git: Path) -> str:
    """Return the commit that the HEAD of a repository names; raise an error if there is none."""
    if git.is_file():  # of a worktree: it names its own folder, which names that of the repository
        git = git.parent / _text(git).removeprefix("gitdir:").strip()
    common = git / _text(git / "commondir") if (git / "commondir").exists() else git
    found = _text(git / "HEAD")
    if found.startswith("ref: "):
        branch = found.removeprefix("ref: ")
        packed = common / "packed-refs"
        if (common / branch).exists():
            found = _text(common / branch)
        else:
            found = next(line.split()[0] for line in _text(packed).splitlines() if line.endswith(f" {branch}"))
    if not re.fullmatch(r"[0-9a-f]{40,64}", found):
        raise ValueError(f"{found!r} is no commit")
    return found


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip()


def gpu_packages() -> dict[str, str]:
    """Return the versions of the packages that compute on a GPU, and of our own kernels."""
    packages = {"torch": version("torch"), "warp": version("warp-lang"), "mujoco_warp": version("mujoco-warp")}
    return {**packages, "gpu_kernels": GPU_KERNELS}


def differences(mine: dict[str, str], other: dict[str, str]) -> list[str]:
    """Return the differences between two fingerprints that can change bits."""
    if "gpu" in other:
        other = {"gpu_kernels": "1", **other}  # the first kernels had no number
    files = [f"{OWN_CODE}{name}" for name in _changed(own_code(mine), own_code(other))]
    more = [f"and {len(files) - SHOWN} more files of yours"] if len(files) > SHOWN else []
    return [
        f"{key} is {mine.get(key, 'none')!r} here and {other.get(key, 'none')!r} there"
        for key in (*BITS_DEPEND_ON, *GPU_BITS_DEPEND_ON, *files[:SHOWN])
        if mine.get(key, "none") != other.get(key, "none")
        and (key not in OPTIONAL_KEYS or (key in mine and key in other))
    ] + more


def own_code(found: Mapping[str, str]) -> dict[str, str]:
    """Return the digests of the user's modules in a fingerprint, by module."""
    return {key.removeprefix(OWN_CODE): digest for key, digest in found.items() if key.startswith(OWN_CODE)}


def _changed(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """Return the modules whose digests differ; one that a side lacks does not count, because commands import few."""
    return [name for name in here if there.get(name, here[name]) != here[name]]


def code_change(here: Mapping[str, str], there: Mapping[str, str], since: str) -> str:
    """Return a sentence that modules of the user have changed; empty if none has. here, there: their digests."""
    changed = _changed(here, there)
    if not changed:
        return ""
    shown = ", ".join(f"{name} ({there[name]}, now {here[name]})" for name in changed[:SHOWN])
    more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
    return f"your code has changed since {since}: {shown}{more}"


@lru_cache
def version(package: str) -> str:
    """Return the version of an installed package, or "none"."""
    name = package.replace("-", "_")
    for folder in sys.path:  # its folder says it; to import the module below, and to read with it, takes 40 ms
        for found in glob.iglob(f"{name}-*.dist-info", root_dir=folder or "."):
            return found[len(name) + 1 : -len(".dist-info")]
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


def _build(engine: str) -> str:
    """Return a digest of the library of a physics engine: another build of the same version may compute other bits.

    The digest is taken from the installer's record. The library itself, which may have 100 MB, is read only if it was
    changed after it was installed.
    """
    loaded = engine in sys.modules
    spec = getattr(sys.modules[engine], "__spec__", None) if loaded else importlib.util.find_spec(engine)
    if spec is None or not spec.origin:
        return "none"
    site = Path(spec.origin).parents[1 if spec.submodule_search_locations else 0]
    library = next(site.glob(LIBRARIES[engine]), None)
    return _file_digest(library, site.glob(f"{engine}*.dist-info/RECORD")) if library else "none"


def _file_digest(file: Path, records: Iterable[Path]) -> str:
    """Return the first digits of a file's SHA-256, from a record of its installer if the record is still true."""
    status = file.stat()
    for record in records:
        if record.stat().st_mtime < status.st_mtime:
            continue
        for line in record.read_text(encoding="utf-8").splitlines():
            name, _, digest = line.partition(",sha256=")
            if digest.endswith(f",{status.st_size}") and record.parents[1] / name == file:
                return digest[:DIGITS]
    with file.open("rb") as opened:
        return base64.urlsafe_b64encode(hashlib.file_digest(opened, "sha256").digest()).decode()[:DIGITS]


@lru_cache  # numpy keeps the BLAS with which it was loaded
def _blas() -> str:
    """Return the BLAS of numpy, with its version and the CPU that it computes for."""
    import threadpoolctl

    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    # scipy, and torch on ARM, bring a BLAS too; it must not matter whether they happen to be loaded.
    pools = [pool for pool in pools if not {"scipy.libs", "torch", "torch.libs"} & set(pool["filepath"].split("/"))]
    blas = {f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '')}" for pool in pools}
    return ", ".join(sorted(blas)) or "none"


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


@lru_cache
def _libm_digest() -> str:
    """Return a digest of some results of the C library, whose last bits depend on the CPU."""
    points = [0.0137 * k + 0.01 for k in range(1, 400)]
    values = [f(x) for f in (math.sin, math.exp, math.log, math.atan, math.cbrt) for x in points]
    return hashlib.sha256(repr(values).encode()).hexdigest()[:8]
