"""`ees-mpi plan`: the costs of a run before it is queued. Some parts are timed, the rest is extrapolated."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ees_mpi import config as configs
from ees_mpi.config import Config
from ees_mpi.generation import costs as model
from ees_mpi.generation.costs import Costs, Phases, on_all_cores, resident_bytes, row_bytes, seconds, time_commit, timed
from ees_mpi.generation.evaluation import Evaluation, Work
from ees_mpi.generation.results import metrics
from ees_mpi.generation.state import State, first_state
from ees_mpi.noise import NoiseTable
from ees_mpi.outcomes import LEADING, Draw, Outcomes, behavior_columns
from ees_mpi.ranks import Ranks
from ees_mpi.ranks.gpus import visible_gpus
from ees_mpi.terminal import clock
from ees_mpi.update import Update

ROLLOUTS = 3  # timed by each process
TABLE = 2**24  # floats of the noise table for timing an update: larger than a cache, and quick to generate
SLOW_NODE = 2.0  # times as long: a slow node, for comparison
EFFICIENT = 0.5  # parallel efficiency; below it, more ranks are not worth their cost


def measured_costs(config: Config) -> Costs:
    """Return the costs of the parts of a generation, measured on this machine."""
    configs.check(config, here=False)
    config.method.try_out(config.task, config.population)
    if config.method.name == "maml":
        from ees_mpi.maml.planning import maml_costs  # imports torch

        return maml_costs(config)
    return evolution_costs(config)


def evolution_costs(config: Config) -> Costs:
    """Return the costs of a few rollouts and one update of an evolution strategy."""
    state = first_state(config)
    update = Update.of(config, _table(config, TABLE))
    drawn, size = update.ask(state), config.population.size
    evaluation = Evaluation(config, update.noise, Ranks())
    work, on_gpu = _work(config, state, drawn), evaluation.device == "cuda"
    evaluation.run(work, range(size if on_gpu else 1), {})  # the first time also loads, compiles and warms up
    batch = timed(lambda: evaluation.run(work, range(size), {}))[0] if on_gpu else 0.0
    evaluation.close()
    resident = resident_bytes() - update.noise.size * 4
    split, fixed = _time_update(config, update, state, drawn)
    working = 6 * sum(array.nbytes for array in state.arrays().values()) + 8 * row_bytes(config)
    each = np.array([batch / size]) if on_gpu else on_all_cores(config, rollout_seconds)[:, 0]
    rollout = float(each.mean())
    how = f"a batch of {size} ({seconds(batch)})"
    if not on_gpu:
        how = f"rollouts on {len(each)} core{'s' * (len(each) > 1)} at once ({seconds(rollout)} each)"
    return Costs(
        rollout,
        split,
        fixed,
        time_commit(config, state),
        resident,
        lambda rows: working,
        4 * config.noise.size,
        f"{how}, one update ({seconds(split + fixed)} on one rank)",
        gpus=len(visible_gpus()) if on_gpu else 0,
        spread=(float(each.min()) / rollout, float(each.max()) / rollout),
    )


def rollout_seconds(config: Config, ready: Callable[[], Any]) -> tuple[float]:
    """Return the seconds of one rollout on a CPU; see `costs.on_all_cores`."""
    state, noise = first_state(config), _table(config, 0)
    work = _work(config, state, Update.of(config, noise).ask(state))
    evaluation = Evaluation(config, noise, Ranks(), "cpu")
    count = max(ROLLOUTS, min(evaluation.rows, config.population.size))
    evaluation.run(work, range(1), {})
    ready()
    taken, _ = timed(lambda: evaluation.run(work, range(count), {}))
    evaluation.close()
    return (taken / count,)


def _table(config: Config, most: int) -> NoiseTable:
    """Return a noise table for timing, of at most this size if that is enough."""
    return NoiseTable(config.noise_seed, max(min(most, config.noise.size), config.task.parameters), Ranks())


def _work(config: Config, state: State, drawn: Draw) -> Work:
    return Work(state.learned, drawn, state.observation_mean_std(), np.zeros(config.population.size, np.bool_))


def _time_update(config: Config, update: Update, state: State, drawn: Draw) -> tuple[float, float]:
    """Return the seconds of an update on random outcomes: the part that the ranks share, and the rest."""
    size, dim = config.population.size, config.task.behavior_dim
    behavior = np.random.default_rng(0).normal(size=(size, dim))
    whole, no_rows = np.ones(size, np.bool_), np.zeros((0, 1))
    by_start = np.random.default_rng(1).normal(size=(size, config.task.rollouts, dim))
    outcomes = Outcomes(behavior, behavior[:, 0].copy(), whole.astype(np.int64), whole, no_rows, by_start)
    tell_taken, (following, _) = timed(lambda: update.tell(state, drawn, outcomes, Ranks()))
    metrics_taken, _ = timed(lambda: metrics(outcomes, config.method.bandwidth, Ranks()))
    gradient = {name: array.astype(np.float64) for name, array in state.learned.items()}  # any: only its size matters
    step_taken, _ = timed(lambda: update.optimizer.step(state.learned, gradient, state.moments))
    digest_taken, _ = timed(following.digest)
    ask_taken, _ = timed(lambda: update.ask(following))
    return max(tell_taken - step_taken, 0.0) + metrics_taken, step_taken + digest_taken + ask_taken


def predict(config: Config, costs: Costs, ranks: int, nodes: int = 1, slow_node: float = 1.0) -> Phases:
    """Return the extrapolated seconds of a generation on some number of ranks."""
    size, task = config.population.size, config.task
    row = LEADING + behavior_columns(task.behavior_dim, task.rollouts)
    received = 8 * (size * row + task.parameters) + costs.gathered
    return model.predict(costs, size, received, ranks, nodes, slow_node)


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
        "generation_seconds_low": plan.generation + (costs.spread[0] - 1) * plan.evaluate,
        "generation_seconds_high": plan.generation + (costs.spread[1] - 1) * plan.evaluate,
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
    nodes = facts["nodes"]
    return [
        f"ranks               {facts['ranks']} on {nodes} node{'s' * (nodes > 1)}, {facts['ranks_per_node']} per node"
        + (f", {costs.gpus} GPU{'s' * (costs.gpus > 1)} per node, as here" if costs.gpus else ""),
        f"memory per rank     {mib['rank']} MiB (measured {mib['rank_bytes_measured']} after start,"
        f" {mib['rank_bytes_computed']} computed for updates)",
        f"memory per node     {mib['node']} MiB, of which {mib['noise_table']} MiB noise table in /dev/shm",
        f"generation          {seconds(facts['generation_seconds'])}: {phases}",
        f"                    {seconds(facts['generation_seconds_low'])} to {seconds(facts['generation_seconds_high'])}"
        f" with the rollouts of the fastest and of the slowest core here; {seconds(facts['slow_node_seconds'])} if one"
        f" node computes at 1/{SLOW_NODE:g} of the speed",
        f"run                 {clock(3600 * facts['hours'])} for {facts['generations']} generations,"
        f" {facts['core_hours']:.2f} core-hours",
        f"file                {mib['file']} MiB, and as much again during a fold",
        f"more ranks          are useful up to about {facts['useful_ranks']}: then the efficiency is below 50 %",
        f"measured            {costs.timed}, one commit ({seconds(costs.commit)})",
        "extrapolated        all rollouts take as long as these; all nodes are like this one; each rank has a core;",
        f"                    a network of {model.LATENCY * 1e6:.0f} us and {model.BANDWIDTH / 1e9:.0f} GB/s is"
        " assumed, and was not measured (docs scaling)",
    ]
