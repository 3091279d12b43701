"""`ees-mpi plan`: the costs of a run before it is queued. Some parts are timed, the rest is extrapolated."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ees_mpi import config as configs
from ees_mpi.config import Config
from ees_mpi.generation import scaling
from ees_mpi.generation.costs import Costs, resident_bytes, row_bytes, seconds, time_commit, timed
from ees_mpi.generation.evaluation import Evaluation, Work
from ees_mpi.generation.results import metrics
from ees_mpi.generation.scaling import Phases
from ees_mpi.generation.state import State, first_state
from ees_mpi.noise import NoiseTable
from ees_mpi.outcomes import Draw, Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.ranks.gpus import visible_gpus
from ees_mpi.registry import loaded
from ees_mpi.strategy import Update

ROLLOUTS = 3
TABLE = 2**24  # floats of the noise table for timing: larger than a cache, and quick to generate
SLOWEST = 3.0  # times the mean: a slow rollout, for comparison
SLOW_NODE = 2.0  # times as long: a slow node, for comparison
EFFICIENT = 0.5  # parallel efficiency; below it, more ranks are not worth their cost


def measured_costs(config: Config) -> Costs:
    """Return the costs of the parts of a generation, measured on this machine."""
    configs.check(config, here=False)
    config.method.rehearse(config.task, config.population)
    hook = config.method.hooks.costs
    costs: Costs = (loaded(hook) if hook else evolution_costs)(config)
    return costs


def evolution_costs(config: Config) -> Costs:
    """Return the costs of a few rollouts and one update of an evolution strategy."""
    state = first_state(config)
    noise = NoiseTable(config.noise_seed, max(min(TABLE, config.noise.size), config.task.parameters), Ranks())
    update = Update.of(config, noise)
    drawn = update.ask(state)
    evaluation = Evaluation(config, noise, Ranks())
    on_gpu, count = evaluation.device == "cuda", max(ROLLOUTS, min(evaluation.rows, config.population.size))
    if on_gpu:
        count = config.population.size
    nobody = np.zeros(config.population.size, np.bool_)
    work = Work(state.learned, drawn, state.observation_mean_std(), nobody)
    evaluation.run(work, range(count if on_gpu else 1), {})  # the first time also loads, compiles and warms up
    taken, _ = timed(lambda: evaluation.run(work, range(count), {}))
    rollout = taken / count
    evaluation.close()
    resident = resident_bytes() - noise.size * 4
    split, fixed = _time_update(config, update, state, drawn)
    working = 6 * sum(array.nbytes for array in state.arrays().values()) + 8 * row_bytes(config)
    return Costs(
        rollout,
        split,
        fixed,
        time_commit(config, state),
        resident,
        lambda rows: working,
        4 * config.noise.size,
        f"{f'a batch of {count}' if on_gpu else f'{count} rollouts'} ({seconds(taken if on_gpu else rollout)}"
        f"{'' if on_gpu else ' each'}), one update ({seconds(split + fixed)} on one rank)",
        gpus=len(visible_gpus()) if on_gpu else 0,
    )


def _time_update(config: Config, update: Update, state: State, drawn: Draw) -> tuple[float, float]:
    """Return the seconds of an update on random outcomes: the part that the ranks share, and the rest."""
    size, dim = config.population.size, config.task.behavior_dim
    behavior = np.random.default_rng(0).normal(size=(size, dim))
    whole, no_rows = np.ones(size, np.bool_), np.zeros((0, 1))
    outcomes = Outcomes(behavior, behavior[:, 0].copy(), whole.astype(np.int64), whole, no_rows)
    tell_taken, (following, _) = timed(lambda: update.tell(state, drawn, outcomes, Ranks()))
    metrics_taken, _ = timed(lambda: metrics(outcomes, config.method.bandwidth, Ranks()))
    gradient = {name: array.astype(np.float64) for name, array in state.learned.items()}  # any: only its size matters
    step_taken, _ = timed(lambda: update.optimizer.step(state.learned, gradient, state.moments))
    digest_taken, _ = timed(following.digest)
    ask_taken, _ = timed(lambda: update.ask(following))
    return max(tell_taken - step_taken, 0.0) + metrics_taken, step_taken + digest_taken + ask_taken


def predict(
    config: Config, costs: Costs, ranks: int, nodes: int = 1, slowest: float = 1.0, slow_node: float = 1.0
) -> Phases:
    """Return the extrapolated seconds of a generation on some number of ranks."""
    size = config.population.size
    received = 8 * (size * (4 + config.task.behavior_dim) + config.task.parameters) + costs.gathered
    return scaling.predict(ranks, nodes, scaling.Work(costs, size, received, slowest, slow_node))


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


def estimate(config: Config, ranks: int, ranks_per_node: int, costs: Costs) -> dict[str, Any]:
    """Return the plan as data for JSON: times in seconds, sizes in bytes."""
    nodes = -(-ranks // ranks_per_node)
    plan = predict(config, costs, ranks, nodes)
    hours = plan.generation * config.run.generations / 3600
    working = costs.working(-(-config.population.size // ranks))
    rank_memory = costs.resident + working
    return {
        "ranks": ranks,
        "nodes": nodes,
        "ranks_per_node": ranks_per_node,
        "gpus_per_node": costs.gpus,
        "rank_bytes": rank_memory,
        "rank_bytes_measured": costs.resident,
        "rank_bytes_computed": working,
        "node_bytes": rank_memory * min(ranks, ranks_per_node) + costs.table,
        "noise_table_bytes": costs.table,
        "generation_seconds": plan.generation,
        **{f"{phase}_seconds": value for phase, value in plan._asdict().items()},
        "generation_seconds_error": scaling.ERROR * plan.generation,
        "slow_rollout_seconds": predict(config, costs, ranks, nodes, slowest=SLOWEST).generation,
        "slow_node_seconds": predict(config, costs, ranks, nodes, slow_node=SLOW_NODE).generation,
        "generations": config.run.generations,
        "hours": hours,
        "core_hours": hours * ranks,
        "file_bytes": row_bytes(config) * config.run.generations,
        "useful_ranks": saturation(config, costs),
        "measured": costs.timed,
    }


def describe(facts: Mapping[str, Any], costs: Costs) -> list[str]:
    """Return the facts of `estimate` as lines of text."""
    mib = {name.removesuffix("_bytes"): f"{value / 2**20:.0f}" for name, value in facts.items() if "bytes" in name}
    parts = ("evaluate", "gather", "update", "commit")
    phases = ", ".join(f"{part} {seconds(facts[f'{part}_seconds'])}" for part in parts)
    nodes, network = facts["nodes"], scaling.NETWORK
    return [
        f"ranks               {facts['ranks']} on {nodes} node{'s' * (nodes > 1)}, {facts['ranks_per_node']} per node"
        + (f", {costs.gpus} GPU{'s' * (costs.gpus > 1)} per node, as here" if costs.gpus else ""),
        f"memory per rank     {mib['rank']} MiB (measured {mib['rank_bytes_measured']} after start,"
        f" {mib['rank_bytes_computed']} computed for updates)",
        f"memory per node     {mib['node']} MiB, of which {mib['noise_table']} MiB noise table in /dev/shm",
        f"generation          {seconds(facts['generation_seconds'])}, give or take {scaling.ERROR:.0%}: {phases}",
        f"                    {seconds(facts['slow_rollout_seconds'])} if one rollout takes {SLOWEST:g} times as long,"
        f" {seconds(facts['slow_node_seconds'])} if one node computes at 1/{SLOW_NODE:g} of the speed",
        f"run                 {facts['hours']:.2f} hours for {facts['generations']} generations,"
        f" {facts['core_hours']:.0f} core-hours",
        f"file                {mib['file']} MiB, and as much again during a fold",
        f"more ranks          are useful up to about {facts['useful_ranks']}: then the efficiency is below 50 %",
        f"measured            {costs.timed}, one commit ({seconds(costs.commit)})",
        "extrapolated        all rollouts take as long as these; each rank computes as fast as this process did,"
        " alone on its core;",
        f"                    a network of {network.latency * 1e6:.0f} us and {network.bandwidth / 1e9:.0f} GB/s is"
        " assumed, and was not measured (docs thousand-ranks)",
    ]
