"""The costs of an iteration of MAML, measured on this machine: rollouts, Hessian products, the rest of an update."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import msgspec
import torch

from ees_mpi.config import Config
from ees_mpi.config.maml import Maml
from ees_mpi.generation.costs import Costs, on_all_cores, resident_bytes, seconds, time_commit, timed
from ees_mpi.generation.state import State, first_state
from ees_mpi.maml.learning import LearningTasks
from ees_mpi.maml.outer import KEPT, task_bytes
from ees_mpi.maml.rollouts import TaskRollouts, maml_of, theta_of
from ees_mpi.maml.training import CpuTasks, MamlJob
from ees_mpi.ranks import Ranks
from ees_mpi.ranks.gpus import visible_gpus

LINE_SEARCH = 3  # evaluations in a typical line search, the old theta included


def maml_costs(config: Config) -> Costs:
    """Measure the costs of one task, or of whole iterations on a GPU."""
    state, job = first_state(config), MamlJob.open(config, Ranks())
    on_gpu, size = job.device == "cuda", config.population.size
    whole = seconds_on_gpu(job, state) if on_gpu else None
    job.close()
    fixed, _ = timed(State(1, state.learned, state.moments, state.observations).digest)
    resident = resident_bytes()
    if whole:
        rollouts, update, spread = whole[0] / size, whole[1] / size, (1.0, 1.0)
        how = f"an iteration: its rollouts ({seconds(whole[0])}), its update ({seconds(whole[1])})"
    else:
        each = on_all_cores(config, seconds_of_task)
        rollouts, update = each.mean(axis=0).tolist()
        spread = each[:, 0].min() / rollouts, each[:, 0].max() / rollouts
        how = f"on {len(each)} core{'s' * (len(each) > 1)} at once: the rollouts of one task ({seconds(rollouts)}), "
        how += f"its part of an update ({seconds(update)})"
    return Costs(
        rollouts,
        0.0,
        fixed,
        time_commit(config, state),
        resident,
        lambda rows: working_bytes(config, 0 if on_gpu else rows),
        0,
        how,
        update,
        8 * config.task.parameters * size * (maml_of(config).cg_iterations + 2),
        gpus=len(visible_gpus()) if on_gpu else 0,
        spread=spread,
    )


def seconds_on_gpu(job: MamlJob, state: State) -> tuple[float, float]:
    """Return the seconds of the rollouts and of the update of an iteration."""
    job.advance(state)  # the first iteration also loads and warms up
    record, _ = job.advance(replace(state, generation=1))
    return record.seconds["evaluate"], record.seconds["update"]


def seconds_of_task(config: Config, ready: Callable[[], Any]) -> tuple[float, float]:
    """Return the seconds of the rollouts of one task, and of its part of an update; see `costs.on_all_cores`."""
    settings = maml_of(config)
    single = replace(config, method=Maml(msgspec.structs.replace(settings, rollouts=1)))
    work, state = CpuTasks(single, Ranks()), first_state(single)
    theta, statistics = theta_of(state), state.observation_mean_std()
    work.rollouts(theta, statistics, 0, 0, 1)  # the first call also imports and allocates
    ready()
    rollouts, pair = timed(lambda: work.rollouts(theta, statistics, 1, 0, 1))
    work.close()
    several = {
        field.name: getattr(pair.before, field.name).repeat_interleave(settings.rollouts, 1)
        for field in fields(TaskRollouts)
        if field.name != "sums"
    }
    steps = replace(pair.before, **several).steps(settings.discount)
    task = LearningTasks(config.task.layers, settings.adaptation_lr, torch.tensor(theta), steps, steps)
    vector = task.gradient()
    product, _ = timed(lambda: task.hessian_product(vector))
    value, _ = timed(lambda: task.at(theta))
    return rollouts * settings.rollouts, (settings.cg_iterations + 2) * product + LINE_SEARCH * value


def working_bytes(config: Config, tasks: int) -> int:
    """Return the bytes of an update on a rank with so many tasks: kept layers, and vectors of the size of theta."""
    vectors, each = 8 * (8 + tasks) * config.task.parameters, task_bytes(config)
    return max(min(tasks, KEPT // each), 1) * each + vectors if tasks else vectors
