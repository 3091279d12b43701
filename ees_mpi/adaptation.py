"""The paper's few-shot test: adapt what was trained to a direction, and score what comes of it from other starts."""

import json
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import msgspec
import numpy as np
from numpy.typing import NDArray

from ees_mpi.errors import ConfigError
from ees_mpi.outcomes import Singles
from ees_mpi.ranks import Ranks
from ees_mpi.sampling import Parent, Say, Wanted, check_target, evaluate, gathered, parent
from ees_mpi.store.reader import open_run
from ees_mpi.tasks.policy import across

FORMAT = "ees_mpi adaptation"
LEFT_RIGHT = {"right": 0.0, "left": 180.0}
MUTATIONS = 40


@dataclass(frozen=True)
class Request:
    """What the command line asks `adapt` for."""

    run: Path
    direction: str
    mutations: int | None = None
    evaluations: int = 10
    generation: int | None = None
    std: float | None = None


def adapt(ranks: Ranks, request: Request, out: Path, overwrite: bool, say: Say) -> None:
    """Adapt by mutation and selection, or by MAML's gradient step where MAML made the run, and write an adaptation."""
    check_target(ranks, out, overwrite)
    learned = False
    with ranks.together():
        if ranks.first:
            with open_run(request.run) as run:
                learned = run.config.learns_tasks
                if learned:
                    run.config.objective.rehearse(run.config.population.size, run.config.task.behavior_dim)
    if ranks.any(learned):
        from ees_mpi.maml.adapting import adapt_by_gradient  # and torch with it

        adapt_by_gradient(ranks, request, out, say)
    else:
        adapt_by_mutation(ranks, request, out, say)


def adapt_by_mutation(ranks: Ranks, request: Request, out: Path, say: Say) -> None:
    """Keep the best of some mutations in a direction."""
    count = request.mutations or MUTATIONS
    mother, drawn, noise = parent(ranks, Wanted(request.run, count, request.generation, request.std), "adapt")
    with ranks.together():
        task = towards(mother.config.task, request.direction)
        evaluator = task.open(mother.config.run.seed)
    outcomes = evaluate(ranks, mother, drawn, noise, evaluator)
    evaluator.close()
    best = int(np.nanargmax(outcomes.fitness))
    z = mother.config.population.individual(mother.state.mean, drawn, best, noise)
    scores = score(ranks, mother, task, z, request.evaluations)
    attributes = {"std": mother.config.population.std, "best": best, "adaptation_steps": int(outcomes.length.sum())}
    mutations = {"fitness": outcomes.fitness, "behavior": outcomes.behavior, "offset": drawn.offset}
    with ranks.together():
        if ranks.first:
            groups = {"mutations": mutations, "evaluations": scores}
            write(out, "mutation", mother, task.direction, attributes, groups)
            say(
                f"{out}: best of {count} mutations went {outcomes.fitness[best]:.3f} towards {request.direction}; "
                f"mean of {request.evaluations} evaluations {np.nanmean(scores['fitness']):.3f}"
            )


def score(ranks: Ranks, mother: Parent, task: Any, z: Singles, evaluations: int) -> dict[str, NDArray[Any]]:
    """Evaluate one individual from other starts, shared out among the ranks."""
    seeds = [task.seed(mother.config.run.seed) + 1 + number for number in range(evaluations)]
    scores = []
    for number in ranks.deal(evaluations):
        other = msgspec.structs.replace(task, reset_seed=seeds[number]).open(0)
        scores.append(other.evaluate(number, z, *mother.state.observation_mean_std(), False))
        other.close()
    scored = gathered(ranks, scores, mother.config, evaluations)
    return {"fitness": scored.fitness, "behavior": scored.behavior, "reset_seed": np.array(seeds)}


def towards(task: Any, direction: str) -> Any:
    """Return the task with another direction, if it has one."""
    if not hasattr(task, "direction") or getattr(task, "fitness", "behavior") == "reward":
        raise ConfigError("adapt: this run's task has no direction to adapt to; expected a walking task")
    try:
        angle = LEFT_RIGHT.get(direction)
        angle = float(direction.removesuffix("deg")) if angle is None else angle
    except ValueError:
        angle = math.nan
    if not math.isfinite(angle):
        raise ConfigError(f"--direction {direction}: expected left, right or an angle in degrees")
    if across(angle, task.behavior_dim):
        raise ConfigError(f"--direction {direction}: this robot moves along x only; expected left or right")
    return msgspec.structs.replace(task, direction=angle)


def write(
    out: Path,
    method: str,
    mother: Parent,
    direction: float,
    attributes: Mapping[str, Any],
    groups: Mapping[str, Mapping[str, NDArray[Any]]],
) -> None:
    """Write an adaptation file: made beside its place and renamed, so that it is whole or not there."""
    fresh = out.with_name(out.name + ".new")
    with h5py.File(fresh, "w") as file:
        file.attrs.update(
            {
                "format": FORMAT,
                "format_version": 1,
                "method": method,
                "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "run": json.dumps(mother.about),
                "config": mother.config.to_toml(),
                "direction": direction,
                "training_steps": mother.about["training_steps"],
                **attributes,
            }
        )
        for group, arrays in groups.items():
            for name, array in arrays.items():
                file[f"{group}/{name}"] = array
    os.replace(fresh, out)
