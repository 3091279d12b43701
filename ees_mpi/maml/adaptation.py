"""Few-shot adaptation of MAML: one gradient step on a batch of rollouts in the requested direction."""

import numpy as np

from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, TaskError, collective
from ees_mpi.generation.results import AdaptedPolicy
from ees_mpi.generation.state import State
from ees_mpi.maml.rollouts import Sampler, maml_of, theta_of
from ees_mpi.maml.training import adapted_theta
from ees_mpi.noise import stream
from ees_mpi.ranks import Ranks


def by_gradient(ranks: Ranks, config: Config, state: State, generation: int) -> AdaptedPolicy:
    """Return the policy of a run after the adaptation step on a batch of rollouts; the task has the new direction."""
    task, settings = config.task, maml_of(config)
    with ranks.together():
        walker = task.walker(config.run.seed)
        if walker is None:
            raise ConfigError("adapt: the task of this run has no walker")
    shape, heading = (settings.rollouts, settings.steps(task), task.layers[-1]), task.heading or 0.0
    noise = stream(config.run.seed, f"adapt towards {heading}", generation).standard_normal(shape, np.float32)
    # Every rank makes all rollouts: this takes a few seconds, and all ranks have the same bits.
    sampler, nobody = Sampler(walker, task.layers, state.observation_mean_std()), np.zeros(settings.rollouts, np.bool_)
    before = sampler.sample(theta_of(state), noise, heading, nobody, task.behavior_dim)
    walker.close()
    if not before.usable:
        raise collective(TaskError("the rollouts for the adaptation are not finite"))
    theta, split = adapted_theta(config, theta_of(state), before), state.mean.shape[1]
    return AdaptedPolicy(
        theta[:split].copy(),
        "gradient",
        {"adaptation_lr": settings.adaptation_lr, "adaptation_steps": int(before.length.sum())},
        {
            "rollouts": {"fitness": before.rewards[0].sum(1).numpy(), "behavior": before.final[0].numpy()},
            "policy": {"mean": theta[:split].copy(), "log_std": theta[split:].copy()},
        },
        f"{settings.rollouts} rollouts went {before.total.item():.3f} towards {{direction}} before the gradient step",
    )
