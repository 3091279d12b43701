"""The costs of an iteration of MAML, measured on this machine: rollouts, Hessian products, the rest of an update."""

from dataclasses import replace

import msgspec
import numpy as np

from ees_mpi.config import Config
from ees_mpi.generation.costs import Costs, resident_bytes, seconds, time_commit, timed
from ees_mpi.generation.state import State, first_state
from ees_mpi.maml.learning import Learner, LearningTask, Steps, theta_of
from ees_mpi.maml.on_cpu import CpuTasks
from ees_mpi.maml.outer import KEPT, graph_bytes
from ees_mpi.maml.rollouts import Gaussian
from ees_mpi.maml.settings import Maml, maml_of
from ees_mpi.maml.training import MamlJob
from ees_mpi.ranks import Ranks
from ees_mpi.ranks.gpus import visible_gpus

ARRAYS = ("observations", "actions", "rewards", "length", "final")  # of a batch, with an axis of rollouts
LINE_SEARCH = 3  # evaluations in a typical line search, the old theta included


def maml_costs(config: Config) -> Costs:
    """Measure the costs of one task, or of whole iterations on a GPU."""
    state, job = first_state(config), MamlJob.open(config, Ranks())
    on_gpu = job.device == "cuda"
    rollouts, update = seconds_on_gpu(job, state) if on_gpu else seconds_of_task(config)
    job.close()
    following = State(1, state.learned, state.moments, state.observations)
    fixed, _ = timed(following.digest)
    size = config.population.size
    timed_parts = f"an iteration: its rollouts ({seconds(rollouts * size)}), its update ({seconds(update * size)})"
    if not on_gpu:
        timed_parts = f"the rollouts of one task ({seconds(rollouts)}), its part of an update ({seconds(update)})"
    return Costs(
        rollouts,
        0.0,
        fixed,
        time_commit(config, state),
        resident_bytes(),
        lambda rows: working_bytes(config, 0 if on_gpu else rows),
        0,
        timed_parts,
        update,
        8 * config.task.parameters * size * (maml_of(config).cg_iterations + 2),
        gpus=len(visible_gpus()) if on_gpu else 0,
    )


def seconds_on_gpu(job: MamlJob, state: State) -> tuple[float, float]:
    """Return the shares of one task in the seconds of the rollouts and the update of an iteration."""
    job.advance(state)  # the first iteration also loads and warms up
    record, _ = job.advance(replace(state, generation=1))
    size = job.config.population.size
    return record.seconds["evaluate"] / size, record.seconds["update"] / size


def seconds_of_task(config: Config) -> tuple[float, float]:
    """Return the seconds of the rollouts of one task, and of its part of an update without kept graphs."""
    settings = maml_of(config)
    single = replace(config, method=Maml(msgspec.structs.replace(settings, rollouts=1)))
    work, state = CpuTasks(single, Ranks()), first_state(single)
    policy = Gaussian.of_state(config.task.layers, state)
    work.rollouts(policy, 0, 0, 1)  # the first call also imports and allocates
    rollouts, pair = timed(lambda: work.rollouts(policy, 1, 0, 1))
    work.close()
    many = {name: np.repeat(getattr(pair.before, name), settings.rollouts, axis=0) for name in ARRAYS}
    steps = Steps.of(replace(pair.before, **many), settings.discount)
    theta = theta_of(policy.mean, policy.log_std)
    task = LearningTask(Learner(config.task.layers, settings.adaptation_lr), theta, steps, steps)
    vector = task.gradient()
    task.hessian_product(vector)
    product, _ = timed(lambda: task.hessian_product(vector))
    value, _ = timed(lambda: task.at(theta.numpy()))
    return rollouts * settings.rollouts, (settings.cg_iterations + 2) * product + LINE_SEARCH * value


def working_bytes(config: Config, tasks: int) -> int:
    """Return the bytes of an update on a rank with so many tasks: kept graphs, and vectors of the size of theta."""
    vectors = 8 * (8 + tasks) * config.task.parameters
    graph = graph_bytes(config)
    return max(min(tasks, KEPT // graph), 1) * graph + vectors if tasks else vectors
