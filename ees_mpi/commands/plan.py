"""`ees-mpi plan`: the costs of a run before it is queued: some parts are timed here, and multiplied."""

import math
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ees_mpi import config as configs
from ees_mpi import metrics
from ees_mpi.config import Config, Evolution
from ees_mpi.errors import ConfigError
from ees_mpi.generation import Found, Outcomes
from ees_mpi.noise import Noise, NoiseTable
from ees_mpi.ranks import Ranks, gpus
from ees_mpi.ranks.serial import OneOfMany
from ees_mpi.run.arrays import layout_of
from ees_mpi.run.determinism import check_deterministic
from ees_mpi.run.evaluators import CpuEvaluator
from ees_mpi.run.on_gpus import choose_device
from ees_mpi.run.parts import evolution_of, first_state, open_evaluator
from ees_mpi.terminal import clock

ROLLOUTS = 3  # timed at least
SHORTEST = 0.2  # seconds: of quick parts, more are timed
TABLE = 2**24  # floats of the noise table for timing an update: larger than a cache, and quick to generate
SPARE = 1.25  # of the memory and the time of a job, times what is computed here
SPARE_MINUTES = 10  # of a job: MPI starts, and the last fold
GRAIN_MIB = 256  # the memory of a job is a multiple of it


@dataclass(frozen=True)
class Nodes:
    """The nodes of a job."""

    count: int
    ranks: int  # on each

    @property
    def all_ranks(self) -> int:
        return self.count * self.ranks


@dataclass(frozen=True)
class Costs:
    """Seconds and bytes measured on this machine."""

    timed: str  # the timed parts, for the output
    start: float  # seconds until a rank has its environment and its part of the noise table
    rollout: float  # seconds of the rollouts of one individual; on GPUs its share of a batch
    update: float  # seconds of an update on the planned number of ranks
    commit: float  # seconds
    resident: int  # bytes of a rank after its imports, with its environment
    working: int  # bytes of its update
    table: int  # bytes of the noise table of a node
    gpus: int = 0  # of a node, if they evaluate


def rounds(config: Config, workers: int) -> float:
    """Return how many individuals the busiest worker evaluates in a generation.

    In some generations the unperturbed mean is one more; if all workers have the same number, it costs a whole round.
    """
    size, every = config.population.size, config.run.evaluate_mean_every
    without, with_mean = (-(-count // workers) for count in (size, size + 1))
    return without + (with_mean - without) / every if every else without


def proposed(config: Config, most: Nodes) -> Nodes:
    """Return the smallest nodes that need no more rounds than `most`, if the mean is evaluated, too."""
    total = config.population.size + (config.run.evaluate_mean_every > 0)
    needed = -(-total // -(-total // most.all_ranks))
    count = -(-needed // most.ranks)
    return Nodes(count, -(-needed // count))


def nodes_of(ranks: int | None, per_node: int | None, launched: Ranks, asked: bool) -> Nodes:
    """Return the nodes of the options; what they leave open is said by the launcher, by SLURM or by this machine.

    asked: a line for SLURM is wanted, which needs the ranks of a node
    """
    told = per_node or (launched.node_size if launched.size > 1 else cores_by_slurm())
    if asked and not told:
        raise ConfigError("--sbatch: expected --ranks-per-node, the cores of a node: there is no SLURM here to ask")
    per_node = told or ranks or len(os.sched_getaffinity(0))
    ranks = ranks or launched.nodes * per_node
    return Nodes(-(-ranks // per_node), min(ranks, per_node))


def cores_by_slurm() -> int:
    """Return the cores of a node of the partition that a job would get, as SLURM says; 0: there is no SLURM."""
    if not shutil.which("sinfo"):
        return 0
    partition = os.environ.get("SLURM_JOB_PARTITION") or os.environ.get("SBATCH_PARTITION")
    words = ["sinfo", "--noheader", "--format=%D %X %Y %P", *(["--partition", partition] if partition else [])]
    try:
        lines = subprocess.run(words, capture_output=True, text=True, timeout=30).stdout.splitlines()
        kinds = [(nodes, sockets, cores, name) for nodes, sockets, cores, name in map(str.split, lines)]
        usual = [kind for kind in kinds if kind[3].endswith("*")] or kinds  # the default partition
        _, sockets, cores, _ = max(usual, key=lambda kind: int(kind[0]))
        return int(sockets.rstrip("+")) * int(cores.rstrip("+"))
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return 0


class Share:
    """What a rank computes in a generation besides rollouts, on random outcomes."""

    def __init__(self, config: Config, noise: Noise):
        self._config, self._method, self.state = config, evolution_of(config, noise), first_state(config)
        self.work = self._method.ask(self.state)

    def update(self, ranks: Ranks) -> None:
        """Compute an update and its metrics, the digest of the next state, and the next draw."""
        size, task = self._config.population.size, self._config.task
        behavior = np.random.default_rng(0).normal(size=(size, task.behavior_dim))
        whole, no_rows = np.ones(size, np.bool_), np.zeros((0, 1))
        by_start = np.random.default_rng(1).normal(size=(size, task.rollouts, task.behavior_dim))
        outcomes = Outcomes(behavior, behavior[:, 0].copy(), whole.astype(np.int64), whole, no_rows, by_start)
        following, _ = self._method.tell(self.work, Found(outcomes, outcomes, {}), ranks)
        metrics.logged(outcomes, self._method.settings, ranks)
        ranks.check_same(following.digest(), "the state")
        self._method.ask(following)


def measured_costs(config: Config, nodes: Nodes, ranks: Ranks) -> Costs:
    """Return the costs of the parts of a generation, timed on all ranks at once: called by all of them together.

    A few rollouts are timed, or a batch on a GPU, and what the last of the planned ranks does in an update.
    """
    if not isinstance(config.method, Evolution):
        raise ConfigError(f"plan: expected an evolution strategy, got method {config.method.name!r}")
    configs.check(config, here=False)
    config.method.try_out(config.task, config.population)
    loading, size = age(), config.population.size
    filling, noise = timed(
        partial(NoiseTable, config.noise_seed, max(min(TABLE, config.noise.size), config.task.parameters), Ranks())
    )
    share = Share(config, noise)
    device, drivers = choose_device(config, ranks, config.task.device or "cpu")
    on_gpu = device == "cuda"
    world = ranks if on_gpu else Ranks()
    opening, evaluator = timed(partial(open_evaluator, config, noise, world, device))
    state, work = share.state, share.work
    if not on_gpu and config.task.own_code and config.task.deterministic:
        check_deterministic(config, work, Ranks())  # as `train` does
    rows = evaluator.rows if isinstance(evaluator, CpuEvaluator) else size
    count = min(size, max(ROLLOUTS, rows))

    def evaluate(individuals: int) -> float:
        return timed(partial(evaluator.evaluate, work, np.arange(individuals)))[0]

    evaluate(count if on_gpu else 1)  # the first time also loads, compiles and warms up
    taken = ranks.each(evaluate(count))
    while taken.mean() < SHORTEST and count < size:
        count = min(4 * count, size)
        taken = ranks.each(evaluate(count))
    evaluator.close()
    resident = resident_bytes() - 4 * noise.size
    rollout = float(taken.max()) * len(drivers) / size if on_gpu else float(taken.mean()) / count
    update = time_update(share, nodes.all_ranks)
    commit = time_commit(config, state.arrays())
    starts = config.task.rollouts
    timed_ones = f"{count} individuals of {starts} rollouts" if starts > 1 else f"{count} rollouts"
    rollouts = (
        f"a batch of {count} ({seconds(taken.max())})"
        if on_gpu
        else f"{timed_ones} ({seconds(rollout)} each{f', on {ranks.size} ranks at once' * (ranks.size > 1)})"
    )
    return Costs(
        f"{rollouts}, one update ({seconds(update)} on rank {nodes.all_ranks - 1}), one commit ({seconds(commit)})",
        loading + opening + filling / noise.size * config.noise.size / nodes.ranks,
        rollout,
        update,
        commit,
        resident,
        working=6 * sum(array.nbytes for array in state.arrays().values()) + 8 * row_bytes(config),
        table=4 * config.noise.size,
        gpus=max(len(drivers) // ranks.nodes, len(gpus.visible_gpus())) if on_gpu else 0,
    )


def time_update(share: Share, ranks: int) -> float:
    """Return the seconds of an update on the last of so many ranks; of quick ones the shortest of some."""
    taken: list[float] = []
    while len(taken) < 2 or sum(taken) < SHORTEST:
        taken.append(timed(partial(share.update, OneOfMany(ranks)))[0])
    return min(taken)


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of an action, and its result."""
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def age() -> float:
    """Return the seconds since this process began."""
    with open("/proc/self/stat", encoding="ascii") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def time_commit(config: Config, state: Mapping[str, Any]) -> float:
    """Return the seconds to write a generation to the disk of this folder."""
    size = row_bytes(config) + sum(array.nbytes for array in state.values())
    with tempfile.TemporaryFile(dir=".") as file:
        start = time.perf_counter()
        file.write(bytes(size))
        file.flush()
        os.fsync(file.fileno())
        return time.perf_counter() - start


def resident_bytes() -> int:
    """Return the bytes of private memory of this process."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def row_bytes(config: Config) -> int:
    """Return the bytes of a generation in the run file."""
    return int(layout_of(config).row.itemsize)


def seconds(value: float) -> str:
    """Return a time with its unit."""
    return f"{value:,.0f} s" if value >= 100 else f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def estimate(config: Config, nodes: Nodes, costs: Costs) -> dict[str, Any]:
    """Return the plan as data: times in seconds, sizes in bytes."""
    evaluations = rounds(config, nodes.count * costs.gpus or nodes.all_ranks)
    generation = evaluations * costs.rollout + costs.update + costs.commit
    hours = (costs.start + generation * config.run.generations) / 3600
    rank_bytes = costs.resident + costs.working
    return {
        "ranks": nodes.all_ranks,
        "nodes": nodes.count,
        "ranks_per_node": nodes.ranks,
        "gpus_per_node": costs.gpus,
        "rank_bytes": rank_bytes,
        "node_bytes": rank_bytes * nodes.ranks + costs.table,
        "noise_table_bytes": costs.table,
        "start_seconds": costs.start,
        "generation_seconds": generation,
        "evaluate_seconds": evaluations * costs.rollout,
        "update_seconds": costs.update,
        "commit_seconds": costs.commit,
        "generations": config.run.generations,
        "hours": hours,
        "core_hours": hours * nodes.all_ranks,
        "file_bytes": row_bytes(config) * config.run.generations,
        "timed": costs.timed,
    }


def describe(facts: Mapping[str, Any]) -> list[str]:
    """Return the facts of `estimate` as lines of text."""
    mib = {name.removesuffix("_bytes"): f"{value / 2**20:.0f} MiB" for name, value in facts.items() if "bytes" in name}
    phases = ", ".join(f"{part} {seconds(facts[f'{part}_seconds'])}" for part in ("evaluate", "update", "commit"))
    nodes, cards = facts["nodes"], facts["gpus_per_node"]
    return [
        f"ranks               {facts['ranks']} on {nodes} node{'s' * (nodes > 1)}, {facts['ranks_per_node']} per node"
        + (f", {cards} GPU{'s' * (cards > 1)} per node, as here" if cards else ""),
        f"memory per rank     {mib['rank']}",
        f"memory per node     {mib['node']}, of which {mib['noise_table']} noise table in /dev/shm",
        f"start               {seconds(facts['start_seconds'])}, and the start of MPI",
        f"generation          {seconds(facts['generation_seconds'])}: {phases}",
        f"run                 {clock(3600 * facts['hours'])} for {facts['generations']} generations,"
        f" {facts['core_hours']:.2f} core-hours",
        f"file                {mib['file']}, and as much again during a fold",
        f"timed here          {facts['timed']}",
        "not counted         messages between ranks; rollouts that are slower on a full node, or longer when trained;",
        "                    jobs/scaling.py measures all of it on your cluster (`ees-mpi docs clusters`)",
    ]


def sbatch(facts: Mapping[str, Any], words: Sequence[str]) -> str:
    """Return the line that submits a run; `words`: of `train`."""
    memory = math.ceil(SPARE * facts["node_bytes"] / 2**20 / GRAIN_MIB) * GRAIN_MIB
    minutes = math.ceil(SPARE * 60 * facts["hours"]) + SPARE_MINUTES
    days, rest = divmod(minutes, 24 * 60)
    options = [
        f"--nodes={facts['nodes']}",
        f"--ntasks-per-node={facts['ranks_per_node']}",
        f"--mem={memory}M",
        f"--time={f'{days}-' if days else ''}{rest // 60:02}:{rest % 60:02}:00",
        "--hint=nomultithread",
        *([f"--gres=gpu:{facts['gpus_per_node']}"] if facts["gpus_per_node"] else []),
    ]
    return shlex.join(["sbatch", *options, "jobs/train.slurm", *words])
