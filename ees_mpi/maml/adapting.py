"""Few-shot adaptation of MAML: one gradient step on a batch of rollouts in the requested direction."""

from typing import Any

import numpy as np

from ees_mpi import config as configs
from ees_mpi import machine
from ees_mpi.commands.adapt import Adapted, AdaptRequest, toward
from ees_mpi.commands.sample import Parent, steps_until, with_engine
from ees_mpi.contracts import Task, Walker
from ees_mpi.errors import ConfigError, RunFileError, TaskError, collective
from ees_mpi.maml.learning import adapt
from ees_mpi.maml.rollouts import Batch, Gaussian, sample
from ees_mpi.maml.settings import maml_of
from ees_mpi.ranks import Ranks
from ees_mpi.runs import broadcast, starting_point
from ees_mpi.state import State
from ees_mpi.store.reader import open_run
from ees_mpi.streams import stream


def by_gradient(ranks: Ranks, request: AdaptRequest) -> Adapted:
    """Return the policy of a run after the adaptation step on a batch of rollouts."""
    parent = _parent(ranks, request)
    config, state = parent.config, parent.state
    with ranks.together():
        task = toward(config.task, request.direction)
        walker = task.walker(config.run.seed)
        if walker is None:
            raise ConfigError("adapt: the task of this run has no walker")
    policy = Gaussian.of_state(task.layers, state)
    # Every rank makes all rollouts: this takes a few seconds, and all ranks have the same bits.
    before = _batch(policy, walker, task, config, parent.about["generation"])
    walker.close()
    adapted = adapt(policy, before, maml_of(config))
    return Adapted(
        parent,
        task,
        adapted.mean,
        "gradient",
        {"adaptation_lr": maml_of(config).adaptation_lr, "adaptation_steps": int(before.length.sum())},
        {
            "rollouts": {"fitness": before.rewards.sum(axis=1), "behavior": before.final},
            "policy": {"mean": adapted.mean, "log_std": adapted.log_std},
        },
        f"{len(before.length)} rollouts went {before.total:.3f} towards {request.direction} before the gradient step",
    )


def _batch(policy: Gaussian, walker: Walker, task: Task, config: configs.Config, generation: int) -> Batch:
    """Make the rollouts for the adaptation."""
    settings = maml_of(config)
    shape, heading = (settings.rollouts, settings.steps(task), task.layers[-1]), task.heading or 0.0
    noise = stream(config.run.seed, f"adapt towards {heading}", generation).standard_normal(shape, np.float32)
    batch = sample(walker, policy, noise, heading, np.zeros(settings.rollouts, np.bool_), task.behavior_dim)
    if not batch.usable:
        raise collective(TaskError("the rollouts for the adaptation are not finite"))
    return batch


def _parent(ranks: Ranks, request: AdaptRequest) -> Parent:
    """Read a run on rank 0 and send it to all ranks."""
    found = None
    ranks.check_alike(machine.fingerprint(torch=True))
    with ranks.together():
        if ranks.first:
            found = _read(request)
    received = broadcast.from_first(ranks, found)
    config, state = configs.parse(received["config"], trusted=True), received["state"]  # rank 0 has checked it
    learned = config.population.learned(state["mean"])
    return Parent(config, State(0, learned, {"log_std": state["log_std"]}, state["observations"]), received["about"])


def _read(request: AdaptRequest) -> dict[str, Any]:
    """Check the request; return config and state of the run."""
    if request.mutations is not None or request.std is not None:
        raise ConfigError("--mutations and --std: a run of MAML adapts by a gradient step; leave them out")
    with open_run(request.run) as run:
        if run.generations == 0:
            raise RunFileError(f"{request.run} has no committed generation yet")
        start = starting_point.read(run, request.generation)
        config = with_engine(run.config, request.settings)
        configs.check(config)
        return {
            "config": config.to_toml(),
            "about": {**start.about, "training_steps": steps_until(run, start.generation)},
            "state": {"mean": start.mean, "observations": start.observations, **start.inherited},
        }
