"""The costs of a MAML iteration, timed here: the rollouts of one task, one Hessian product, the rest of an update."""

import time
from dataclasses import replace

import msgspec
import numpy as np
import torch

from ees_mpi.commands.plan import Costs, resident_bytes, seconds, time_commit, timed
from ees_mpi.config import Config
from ees_mpi.maml.learning import Learner, LearningTask, Steps
from ees_mpi.maml.settings import Maml, maml_of
from ees_mpi.maml.training import KEPT, MamlJob, graph_bytes
from ees_mpi.ranks import Ranks
from ees_mpi.state import State, first_state

LINE_SEARCH = 3  # candidates of a typical line search, the old theta included


def maml_costs(config: Config) -> Costs:
    """Time one task, and its share of an update."""
    rollouts, each = seconds_of_task(config)
    state = first_state(config)
    following = State(1, state.learned, state.moments, state.observations)
    fixed, _ = timed(following.digest)
    return Costs(
        rollouts,
        0.0,
        fixed,
        time_commit(config, state),
        resident_bytes(),
        lambda rows: working_bytes(config, rows),
        0,
        f"the rollouts of one task ({seconds(rollouts)}), its share in an update ({seconds(each)})",
        each,
        gathered_bytes(config),
    )


def seconds_of_task(config: Config) -> tuple[float, float]:
    """Return the seconds of one task's rollouts, and of its share in an update, at most: without kept graphs."""
    settings = maml_of(config)
    single = replace(config, method=Maml(msgspec.structs.replace(settings, rollouts=1)))
    job, state = MamlJob.open(single, Ranks()), first_state(single)
    policy = job.policy(state)
    job.rollouts(policy, 0, 0, 1)  # the first one also loads and warms up
    start = time.perf_counter()
    pair = job.rollouts(policy, 1, 0, 1)
    rollouts = (time.perf_counter() - start) * settings.rollouts
    job.close()
    many = {name: np.repeat(getattr(pair.before, name), settings.rollouts, axis=0) for name in _ARRAYS}
    steps = Steps.of(replace(pair.before, **many), settings.discount)
    theta = torch.tensor(np.concatenate([policy.mean, policy.log_std]))
    task = LearningTask(Learner(config.task.layers, settings.adaptation_lr), theta, steps, steps)
    vector = task.gradient()
    task.hessian_product(vector)
    start = time.perf_counter()
    task.hessian_product(vector)
    product = time.perf_counter() - start
    start = time.perf_counter()
    task.at(theta.numpy())
    value = time.perf_counter() - start
    return rollouts, (settings.cg_iterations + 2) * product + LINE_SEARCH * value


def working_bytes(config: Config, tasks: int) -> int:
    """Return the bytes that an update needs on a rank with so many tasks: kept graphs, and vectors like theta."""
    vectors = 8 * (8 + tasks) * config.task.parameters
    graph = graph_bytes(config)
    return max(min(tasks, KEPT // graph), 1) * graph + vectors


def gathered_bytes(config: Config) -> int:
    """Return the bytes that every rank receives in an iteration, most of them gradients and Hessian products."""
    rows = config.population.size * (maml_of(config).cg_iterations + 2)
    return 8 * rows * config.task.parameters


_ARRAYS = ("observations", "actions", "rewards", "length", "final")
