"""What a run will cost, before queueing: parts timed here, the rest extrapolated, and said to be so."""

import math
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ees_mpi import config as configs
from ees_mpi import metrics
from ees_mpi.config import Config
from ees_mpi.noise import NoiseTable
from ees_mpi.outcomes import Draw, Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.state import State, first_state
from ees_mpi.store import layout
from ees_mpi.training import draw

ROLLOUTS = 3
TABLE = 2**24  # floats of the table that the timing reads: larger than a cache, quickly made
LATENCY = 30e-6  # seconds per hop of a gather between nodes: assumed
BANDWIDTH = 1e9  # bytes per second between nodes: assumed
EFFICIENT = 0.5  # parallel efficiency below which more ranks are said not to pay


@dataclass(frozen=True)
class Costs:
    """Seconds and bytes measured on this machine, by one process."""

    rollout: float  # seconds of one individual's rollout, or of all rollouts of one task
    split: float  # seconds of the part of an update that ranks share
    fixed: float  # seconds of the part that every rank does
    commit: float  # seconds
    resident: int  # bytes of a rank after imports and with its environment
    working: int  # bytes that an update needs beside that
    each: float = 0.0  # seconds of the part of an update that one rank does for each of its tasks
    gathered: int = 0  # bytes that every rank receives beside the outcomes


@dataclass(frozen=True)
class Plan:
    """What a run costs on some number of ranks."""

    evaluate: float
    gather: float
    update: float
    commit: float

    @property
    def generation(self) -> float:
        """Seconds of a generation."""
        return self.evaluate + self.gather + self.update + self.commit


def measure(config: Config) -> Costs:
    """Time a few rollouts and one update of a config here."""
    configs.check(config)
    if config.learns_tasks:
        return _measure_tasks(config)
    state = first_state(config)
    noise = NoiseTable(config.noise_seed, max(min(TABLE, config.noise.size), config.task.parameters), Ranks())
    drawn = draw(config, noise, 0)
    evaluator = config.task.open(config.run.seed)
    statistics = state.observation_mean_std()
    individuals = [config.population.individual(state.mean, drawn, i, noise) for i in range(ROLLOUTS)]
    evaluator.evaluate(0, individuals[0], *statistics, False)  # the first one also loads and warms up
    start = time.perf_counter()
    for individual in individuals:
        evaluator.evaluate(0, individual, *statistics, False)
    rollout = (time.perf_counter() - start) / ROLLOUTS
    evaluator.close()
    resident = _resident() - noise.size * 4
    split, fixed = _time_update(config, state, drawn, noise)
    arrays = state.arrays()
    working = 6 * sum(array.nbytes for array in arrays.values()) + 8 * row_bytes(config)
    return Costs(rollout, split, fixed, _time_commit(config, state), resident, working)


def _measure_tasks(config: Config) -> Costs:
    """Time one task and its share in an update of MAML."""
    config.objective.rehearse(config.population.size, config.task.behavior_dim)
    from ees_mpi.maml import planning

    rollouts, each = planning.seconds_of_task(config)
    state = first_state(config)
    following = State(1, state.mean, state.moments, state.observations)
    fixed, _ = _timed(following.digest)
    commit, resident = _time_commit(config, state), _resident()
    return Costs(rollouts, 0.0, fixed, commit, resident, 0, each, planning.gathered_bytes(config))


def _time_update(config: Config, state: State, drawn: Draw, noise: NoiseTable) -> tuple[float, float]:
    """Time an update on made-up outcomes: what ranks share out (kernel sums, gradient), and what they do not."""
    population, dim = config.population, config.task.behavior_dim
    generator = np.random.default_rng(0)
    behavior = generator.normal(size=(population.size, dim))
    whole, no_rows = np.ones(population.size, np.bool_), np.zeros((0, 1))
    outcomes = Outcomes(behavior, behavior[:, 0].copy(), whole.astype(np.int64), whole, no_rows)
    bandwidth = getattr(config.objective, "bandwidth", 1.0)
    weights_taken, (weights, _) = _timed(lambda: config.objective.weights(outcomes, state.memory, Ranks()))
    metrics_taken, _ = _timed(lambda: metrics.summary(outcomes, bandwidth, Ranks()))
    gradient_taken, gradient = _timed(lambda: population.gradient(weights, drawn, state.mean, noise, Ranks()))
    step_taken, (mean, moments) = _timed(lambda: config.optimizer.step(state.mean, gradient, state.moments))
    following = State(1, mean, moments, state.observations, state.memory)
    digest_taken, _ = _timed(following.digest)
    draw_taken, _ = _timed(lambda: draw(config, noise, 1))
    return weights_taken + metrics_taken + gradient_taken, step_taken + digest_taken + draw_taken


def _timed(action: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def _time_commit(config: Config, state: State) -> float:
    """Time the writing of a generation's bytes to the disk of this folder."""
    size = row_bytes(config) + sum(array.nbytes for array in state.arrays().values())
    with tempfile.TemporaryFile(dir=".") as file:
        start = time.perf_counter()
        file.write(bytes(size))
        file.flush()
        os.fsync(file.fileno())
        return time.perf_counter() - start


def _resident() -> int:
    """Bytes of private memory that this process holds."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def row_bytes(config: Config) -> int:
    """Bytes that a generation takes in the run file."""
    sizes = layout.axis_sizes(config)
    fields = layout.present(sizes).values()
    return sum(math.prod(sizes[axis] for axis in field.axes) * np.dtype(field.dtype).itemsize for field in fields)


def predict(config: Config, costs: Costs, ranks: int) -> Plan:
    """Extrapolate the seconds of a generation to some number of ranks."""
    rounds = -(-config.population.size // ranks)
    payload = 8 * (config.population.size * (4 + config.task.behavior_dim) + config.task.parameters) + costs.gathered
    hops = math.ceil(math.log2(ranks)) if ranks > 1 else 0
    gather = 6 * hops * LATENCY + (payload / BANDWIDTH if ranks > 1 else 0.0)
    update = costs.fixed + rounds * costs.each + costs.split / ranks
    return Plan(rounds * costs.rollout, gather, update, costs.commit)


def saturation(config: Config, costs: Costs) -> int:
    """Return the number of ranks beyond which parallel efficiency falls below a half."""
    alone = predict(config, costs, 1).generation
    ranks = 1
    while ranks < config.population.size:
        more = min(2 * ranks, config.population.size)
        if alone / (more * predict(config, costs, more).generation) < EFFICIENT:
            break
        ranks = more
    return ranks


def describe(config: Config, ranks: int, ranks_per_node: int, costs: Costs) -> list[str]:
    """Lay the plan out for reading."""
    plan = predict(config, costs, ranks)
    nodes = -(-ranks // ranks_per_node)
    hours = plan.generation * config.run.generations / 3600
    working = costs.working
    if config.learns_tasks:
        from ees_mpi.maml import planning

        working = planning.working_bytes(config, -(-config.population.size // ranks))
    rank_memory = costs.resident + working
    table = 0 if config.learns_tasks else 4 * config.noise.size
    timed = (
        f"the rollouts of one task ({_seconds(costs.rollout)}), its share in an update ({_seconds(costs.each)})"
        if config.learns_tasks
        else f"{ROLLOUTS} rollouts ({_seconds(costs.rollout)} each), one update"
        f" ({_seconds(costs.split + costs.fixed)} on one rank)"
    )
    size = row_bytes(config) * config.run.generations
    mib = 2**20
    return [
        f"ranks               {ranks} on {nodes} node{'s' * (nodes > 1)}, {ranks_per_node} per node",
        f"memory per rank     {rank_memory / mib:.0f} MiB (measured {costs.resident / mib:.0f} after start,"
        f" {working / mib:.0f} computed for updates)",
        f"memory per node     {(rank_memory * min(ranks, ranks_per_node) + table) / mib:.0f} MiB, of which"
        f" {table / mib:.0f} MiB noise table in /dev/shm",
        f"generation          {_seconds(plan.generation)}: evaluate {_seconds(plan.evaluate)}, gather"
        f" {_seconds(plan.gather)}, update {_seconds(plan.update)}, commit {_seconds(plan.commit)}",
        f"run                 {hours:.2f} hours for {config.run.generations} generations,"
        f" {hours * ranks:.0f} core-hours",
        f"file                {size / mib:.0f} MiB, and as much again for a moment at every fold",
        f"more ranks          pay up to about {saturation(config, costs)}: beyond, less than half of each is used",
        f"measured here       {timed}, one commit ({_seconds(costs.commit)})",
        "extrapolated        all rollouts take as long as these; each rank computes as fast as this process did,"
        " alone on its core;",
        f"                    gathers are assumed to cost {LATENCY * 1e6:.0f} us per hop and"
        f" {BANDWIDTH / 1e9:.0f} GB/s, and were not measured",
    ]


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"
