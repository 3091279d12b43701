"""MAML's few-shot test: one gradient step on a batch of rollouts in the wanted direction."""

from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi import adaptation, machine, origin
from ees_mpi import config as configs
from ees_mpi.adaptation import Request, score, towards
from ees_mpi.errors import ConfigError, RunFileError, TaskError, collective
from ees_mpi.maml.learning import adapt
from ees_mpi.maml.rollouts import Batch, Gaussian, sample
from ees_mpi.maml.settings import Maml
from ees_mpi.ranks import Ranks
from ees_mpi.sampling import Parent, Say, steps_until
from ees_mpi.state import State
from ees_mpi.store import journal
from ees_mpi.store.reader import open_run
from ees_mpi.streams import stream


def adapt_by_gradient(ranks: Ranks, request: Request, out: Path, say: Say) -> None:
    """Take MAML's adaptation step on a batch of rollouts, then act without noise."""
    mother = _mother(ranks, request)
    config, state = mother.config, mother.state
    with ranks.together():
        task = towards(config.task, request.direction)
        walker = task.walker(config.run.seed)
    policy = Gaussian.of(
        task.layers, state.mean[0], np.asarray(state.moments["log_std"]), *state.observation_mean_std()
    )
    # Every rank walks the whole batch: the same bits for all, at the price of a few seconds.
    before = _batch(policy, walker, task, config, mother.about["generation"])
    walker.close()
    adapted = adapt(policy, before, config.objective)
    scores = score(ranks, mother, task, adapted.mean, request.evaluations)
    attributes = {"adaptation_lr": config.objective.adaptation_lr, "adaptation_steps": int(before.length.sum())}
    groups = {
        "rollouts": {"fitness": before.rewards.sum(axis=1), "behavior": before.final},
        "policy": {"mean": adapted.mean, "log_std": adapted.log_std},
        "evaluations": scores,
    }
    with ranks.together():
        if ranks.first:
            adaptation.write(out, "gradient", mother, task.direction, attributes, groups)
            say(
                f"{out}: {len(before.length)} rollouts went {before.total:.3f} towards {request.direction} before the "
                f"gradient step; mean of {request.evaluations} evaluations after it {np.nanmean(scores['fitness']):.3f}"
            )


def _batch(policy: Gaussian, walker: Any, task: Any, config: configs.Config, generation: int) -> Batch:
    settings: Maml = config.objective
    shape = (settings.rollouts, settings.steps(task), task.layers[-1])
    noise = stream(config.run.seed, f"adapt towards {task.direction}", generation).standard_normal(shape, np.float32)
    batch = sample(walker, policy, noise, task.direction, np.zeros(settings.rollouts, np.bool_), task.behavior_dim)
    if not batch.usable:
        raise collective(TaskError("the rollouts to adapt with are not finite"))
    return batch


def _mother(ranks: Ranks, request: Request) -> Parent:
    """Read a run on rank 0 and tell all ranks."""
    found = None
    ranks.check_alike(machine.fingerprint(torch=True))
    with ranks.together():
        if ranks.first:
            found = _read(request)
    record = journal.tell_everyone(ranks, found)
    state = record["state"]
    mean, observations = state["mean"], state["observations"]
    return Parent(
        configs.parse(record["config"]),
        State(0, mean, {"log_std": state["log_std"]}, observations),
        record["about"],
    )


def _read(request: Request) -> dict[str, Any]:
    if request.mutations is not None or request.std is not None:
        raise ConfigError(
            "--mutations and --std: a MAML run adapts by a gradient step, not by mutations; leave them out"
        )
    with open_run(request.run) as run:
        if run.generations == 0:
            raise RunFileError(f"{request.run} has no committed generation yet")
        found = origin.read(run, request.generation)
        configs.check(run.config)
        return {
            "config": run.config.to_toml(),
            "about": {**found.about, "training_steps": steps_until(run, found.generation)},
            "state": {"mean": found.mean, "observations": found.observations, **found.learned},
        }
