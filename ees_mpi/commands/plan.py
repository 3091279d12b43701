"""`ees-mpi plan`: the costs of a run before it is queued: some parts are timed here, and multiplied."""

import math
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ees_mpi import config as configs
from ees_mpi.config import Config, Evolution
from ees_mpi.errors import ConfigError
from ees_mpi.generation.determinism import check_deterministic
from ees_mpi.generation.evaluation import Evaluation, Work
from ees_mpi.generation.results import metrics
from ees_mpi.generation.state import State, first_state
from ees_mpi.noise import NoiseTable
from ees_mpi.outcomes import Draw, Outcomes
from ees_mpi.ranks import Ranks, gpus
from ees_mpi.store import layout
from ees_mpi.terminal import clock
from ees_mpi.update import Update

ROLLOUTS = 3  # timed at least
SHORTEST = 0.2  # seconds: of quick rollouts, more are timed
TABLE = 2**24  # floats of the noise table for timing an update: larger than a cache, and quick to generate


@dataclass(frozen=True)
class Costs:
    """Seconds and bytes measured on this machine."""

    timed: str  # the timed parts, for the output
    rollout: float  # seconds of the rollouts of one individual; on GPUs its share of a batch
    commit: float  # seconds
    resident: int  # bytes of a rank after its imports, with its environment
    working: int  # bytes of its update
    shared: float  # seconds of the part of an update that the ranks share
    fixed: float  # seconds of the part that every rank computes
    table: int  # bytes of the noise table of a node
    gpus: int = 0  # of this machine, if they evaluate


def measured_costs(config: Config) -> Costs:
    """Return the costs of the parts of a generation: of a few rollouts, or a batch on a GPU, and of one update."""
    if not isinstance(config.method, Evolution):
        raise ConfigError(f"plan: expected an evolution strategy, got method {config.method.name!r}")
    configs.check(config, here=False)
    config.method.try_out(config.task, config.population)
    state, size = first_state(config), config.population.size
    noise = NoiseTable(config.noise_seed, max(min(TABLE, config.noise.size), config.task.parameters), Ranks())
    update = Update.of(config, noise)
    drawn, evaluation = update.ask(state), Evaluation(config, noise, Ranks())
    work = Work(state.learned, drawn, state.observation_mean_std(), np.zeros(size, np.bool_))
    on_gpu = evaluation.device == "cuda"
    if not on_gpu:
        check_deterministic(config, state, Ranks())  # as `train` does
    count = size if on_gpu else min(size, max(ROLLOUTS, evaluation.rows))
    evaluate = partial(evaluation.run, work)
    evaluate(range(count if on_gpu else 1), {})  # the first time also loads, compiles and warms up
    taken, _ = timed(partial(evaluate, range(count), {}))
    while taken < SHORTEST and count < size:
        count = min(4 * count, size)
        taken, _ = timed(partial(evaluate, range(count), {}))
    evaluation.close()
    resident = resident_bytes() - 4 * noise.size
    shared, fixed = _time_update(config, update, state, drawn)
    commit = time_commit(config, state)
    rollouts = (
        f"a batch of {count} ({seconds(taken)})" if on_gpu else f"{count} rollouts ({seconds(taken / count)} each)"
    )
    return Costs(
        f"{rollouts}, one update ({seconds(shared + fixed)} on one rank), one commit ({seconds(commit)})",
        taken / count,
        commit,
        resident,
        working=6 * sum(array.nbytes for array in state.arrays().values()) + 8 * row_bytes(config),
        shared=shared,
        fixed=fixed,
        table=4 * config.noise.size,
        gpus=len(gpus.visible_gpus()) if on_gpu else 0,
    )


def _time_update(config: Config, update: Update, state: State, drawn: Draw) -> tuple[float, float]:
    """Return the seconds of an update on random outcomes: the part that the ranks share, and the rest."""
    size, dim = config.population.size, config.task.behavior_dim
    behavior = np.random.default_rng(0).normal(size=(size, dim))
    whole, no_rows = np.ones(size, np.bool_), np.zeros((0, 1))
    by_start = np.random.default_rng(1).normal(size=(size, config.task.rollouts, dim))
    outcomes = Outcomes(behavior, behavior[:, 0].copy(), whole.astype(np.int64), whole, no_rows, by_start)
    tell_taken, (following, _) = timed(lambda: update.tell(state, drawn, outcomes, Ranks()))
    metrics_taken, _ = timed(lambda: metrics(outcomes, config.method.bandwidth, Ranks()))
    fixed_taken, _ = timed(lambda: (following.digest(), update.ask(following)))
    return tell_taken + metrics_taken, fixed_taken


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of an action, and its result."""
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def time_commit(config: Config, state: State) -> float:
    """Return the seconds to write a generation to the disk of this folder."""
    size = row_bytes(config) + sum(array.nbytes for array in state.arrays().values())
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
    sizes, fields = layout.axis_sizes(config), layout.present(config).values()
    return sum(math.prod(sizes[axis] for axis in field.axes) * np.dtype(field.dtype).itemsize for field in fields)


def seconds(value: float) -> str:
    """Return a time with its unit."""
    return f"{value:,.0f} s" if value >= 100 else f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def estimate(config: Config, ranks: int, ranks_per_node: int, costs: Costs) -> dict[str, Any]:
    """Return the plan as data for JSON: times in seconds, sizes in bytes."""
    nodes = -(-ranks // ranks_per_node)
    rows = -(-config.population.size // (nodes * costs.gpus or ranks))  # of the rank that has the most
    evaluate, update = rows * costs.rollout, costs.shared / ranks + costs.fixed
    generation = evaluate + update + costs.commit
    hours = generation * config.run.generations / 3600
    rank_bytes = costs.resident + costs.working
    return {
        "ranks": ranks,
        "nodes": nodes,
        "ranks_per_node": ranks_per_node,
        "gpus_per_node": costs.gpus,
        "rank_bytes": rank_bytes,
        "node_bytes": rank_bytes * min(ranks, ranks_per_node) + costs.table,
        "noise_table_bytes": costs.table,
        "generation_seconds": generation,
        "evaluate_seconds": evaluate,
        "update_seconds": update,
        "commit_seconds": costs.commit,
        "generations": config.run.generations,
        "hours": hours,
        "core_hours": hours * ranks,
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
        f"generation          {seconds(facts['generation_seconds'])}: {phases}",
        f"run                 {clock(3600 * facts['hours'])} for {facts['generations']} generations,"
        f" {facts['core_hours']:.2f} core-hours",
        f"file                {mib['file']}, and as much again during a fold",
        f"timed here          {facts['timed']}",
        "not counted         messages between ranks; rollouts that are slower on a full node, or longer when trained;",
        "                    jobs/scaling.py measures all of it on your cluster (`ees-mpi docs scaling`)",
    ]
