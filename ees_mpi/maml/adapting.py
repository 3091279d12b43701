"""Few-shot adaptation of MAML: one gradient step on a batch of rollouts in the requested direction."""

import numpy as np

from ees_mpi import machine
from ees_mpi.config import Config
from ees_mpi.contracts import Walker
from ees_mpi.errors import ConfigError, TaskError, collective
from ees_mpi.generation.results import Adapted
from ees_mpi.generation.state import State
from ees_mpi.maml.learning import adapt
from ees_mpi.maml.rollouts import Batch, Gaussian, sample
from ees_mpi.maml.settings import maml_of
from ees_mpi.noise import stream
from ees_mpi.ranks import Ranks


def by_gradient(ranks: Ranks, config: Config, state: State, generation: int) -> Adapted:
    """Return the policy of a run after the adaptation step on a batch of rollouts; the task has the new direction."""
    ranks.check_alike(machine.fingerprint(torch=True))
    with ranks.together():
        walker = config.task.walker(config.run.seed)
        if walker is None:
            raise ConfigError("adapt: the task of this run has no walker")
    policy = Gaussian.of_state(config.task.layers, state)
    # Every rank makes all rollouts: this takes a few seconds, and all ranks have the same bits.
    before = _batch(policy, walker, config, generation)
    walker.close()
    adapted = adapt(policy, before, maml_of(config))
    return Adapted(
        adapted.mean,
        "gradient",
        {"adaptation_lr": maml_of(config).adaptation_lr, "adaptation_steps": int(before.length.sum())},
        {
            "rollouts": {"fitness": before.rewards.sum(axis=1), "behavior": before.final},
            "policy": {"mean": adapted.mean, "log_std": adapted.log_std},
        },
        f"{len(before.length)} rollouts went {before.total:.3f} towards {{direction}} before the gradient step",
    )


def _batch(policy: Gaussian, walker: Walker, config: Config, generation: int) -> Batch:
    """Make the rollouts for the adaptation."""
    settings, task = maml_of(config), config.task
    shape, heading = (settings.rollouts, settings.steps(task), task.layers[-1]), task.heading or 0.0
    noise = stream(config.run.seed, f"adapt towards {heading}", generation).standard_normal(shape, np.float32)
    batch = sample(walker, policy, noise, heading, np.zeros(settings.rollouts, np.bool_), task.behavior_dim)
    if not batch.usable:
        raise collective(TaskError("the rollouts for the adaptation are not finite"))
    return batch
