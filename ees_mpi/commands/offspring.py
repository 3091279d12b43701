"""`ees-mpi sample`: new offspring of a trained mean. `ees-mpi measure`: how evolvable any policy is.

Both write a study: `sample` at one standard deviation, `measure` at several.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ees_mpi.commands.arguments import counted, path_of
from ees_mpi.commands.requests import MeasureRequest, SampleRequest, changes_of, policy_of
from ees_mpi.commands.study import Parent, Source, check_target, draw, evaluate, offspring_of, read_parent
from ees_mpi.config import Config
from ees_mpi.contracts import Say
from ees_mpi.errors import ConfigError
from ees_mpi.generation.evaluation import Evaluation
from ees_mpi.generation.results import Record
from ees_mpi.noise import stream
from ees_mpi.outcomes import Arrays, Draw
from ees_mpi.populations.diagonal import Diagonal
from ees_mpi.ranks import Ranks
from ees_mpi.registry import beside
from ees_mpi.registry.toml import Setting, key_of, shown
from ees_mpi.runs.policy_files import PolicySource

Note = dict[str, list[float]]
TENTH, MOST_PARENTS = 10, 50  # the best of so many are selected; at most so many in a direction
ENGINE_KEYS = ("task.engine", "task.device")


def sample(ranks: Ranks, request: SampleRequest, say: Say) -> Path:
    """Evaluate new offspring, and write a run file of one generation; return its path."""
    run = path_of(request.run)
    out = Path(request.out or run.with_name(f"{run.stem}-sample.h5"))
    check_target(ranks, run, out, request.overwrite)
    source = source_of(ranks, run, request.generation, changes_of(request.settings))
    parent = read_parent(ranks, source, lambda config: offspring(config, request.count, request.std))
    drawn, noise = draw(ranks, parent, "sample", parent.about["generation"])
    with ranks.together():
        if request.component is not None:
            component = counted("component", request.component, len(parent.state.mean))
            drawn = replace(drawn, parent=np.full(request.count, component, np.int32))
    evaluate(ranks, parent, (drawn, noise), {parent.std: parent.state.learned}, out, say)
    if ranks.is_root:
        say(f"{out}: {request.count} offspring of generation {parent.about['generation']} of {run}")
    return out


def source_of(ranks: Ranks, run: Path, generation: int | None, settings: Sequence[Setting]) -> Source:
    """Return a run, or a policy that was exported from it, in its own task; only the engine can be another one."""
    with ranks.together():
        for setting in settings:
            if key_of(setting) not in ENGINE_KEYS:
                raise ConfigError(
                    f"{shown(setting)}: expected {' or '.join(ENGINE_KEYS)}; all other keys are the run's"
                )
    return Source(PolicySource(run), generation, settings=settings)


def offspring(config: Config, count: int, std: float | None) -> Config:
    """Return the config of `count` offspring of a run."""
    run = msgspec.structs.replace(config.run, generations=1)
    population = config.population.offspring(count, std)
    return replace(config, population=population, run=run, method=config.method.of_offspring)


def measure(ranks: Ranks, request: MeasureRequest, say: Say) -> Path:
    """Evaluate the offspring of a policy, and write a file with a row for each standard deviation; return its path."""
    policy, out = policy_of(request.policy, request), Path(request.out)
    if request.task and request.task.endswith(".toml"):
        beside(request.task)  # on every rank: rank 0 alone reads the file
    named = request.policy if isinstance(request.policy, str) else ""
    check_target(ranks, Path(named), out, request.overwrite)
    with ranks.together():
        stds = _stds(request)
    source = Source(policy, None, request.task, changes_of(request.settings), request.label)
    parent = read_parent(ranks, source, partial(_offspring, request))
    for note in parent.config.notes if ranks.is_root else ():
        say(note)
    mean = parent.state.mean
    rows: dict[float, Arrays] = {std: {"mean": mean, "std": np.full(mean.shape, std, np.float32)} for std in stds}
    drawn = draw(ranks, parent, "measure")
    further = partial(second_generation, parent, drawn[0]) if request.starts else None
    evaluate(ranks, parent, drawn, rows, out, say, further)
    if ranks.is_root:
        of_all = f"each of {len(stds)} stds" if len(stds) > 1 else f"std {stds[0]:g}"
        say(f"{out}: {request.count} offspring of {named or 'the policy'} at {of_all}")
    return out


def _offspring(request: MeasureRequest, config: Config) -> Config:
    """Return the config of the offspring: a population that logs the standard deviation of each row."""
    stds = _stds(request)
    population = Diagonal(
        size=request.count, std=min(stds), antithetic=False, std_floor=min(stds), std_ceiling=max(stds)
    )
    run, task = msgspec.structs.replace(config.run, generations=len(stds), needs_start=False), config.task
    if request.starts:
        if not task.starts:
            raise ConfigError(
                f"--starts: the task {config.task_name} has no key task.starts; expected cheetah, ant or mujoco"
            )
        unseen = int(stream(task.start_seed(run.seed), "unseen starts").integers(2**31))
        keys: dict[str, Any] = {"rollouts": request.starts, "starts": "fixed", "reset_seed": unseen}
        task = msgspec.structs.replace(task, **keys)
    return replace(config, method=config.method.of_offspring, task=task, population=population, run=run)


def second_generation(parent: Parent, drawn: Draw, evaluation: Evaluation, learned: Arrays, record: Record) -> Note:
    """Select the best tenth from the first start in each direction, and mutate them again.

    Return selection and response along each direction: the mean place of the selected from the first start, and that
    of their offspring from the other starts. Directions are opposite in pairs, so that no control is needed.
    """
    config, row, axes = parent.config, record.generation, parent.config.task.axes
    directions = np.vstack([np.eye(axes), -np.eye(axes)])
    first = record["behavior_by_start"][:, 0, -axes:] @ directions.T
    first[~record["valid"]] = -np.inf
    best = np.argsort(-first, axis=0, kind="stable")[: min(config.population.size // TENTH, MOST_PARENTS)]
    selected = best.T.ravel()  # direction by direction
    population, noise = config.population, evaluation.noise
    parents = np.stack([population.individual(learned, drawn, index, noise) for index in selected.tolist()])
    again = population.draw(stream(config.run.seed, "second generation", row), noise, config.task.parameters)
    again = replace(again, parent=np.arange(population.size, dtype=np.int32) % len(parents))
    outcomes = offspring_of(evaluation, {**learned, "mean": parents}, again, parent.statistics, row)
    if outcomes.by_start is None:
        raise RuntimeError("a second generation needs several starts")
    other = outcomes.by_start[:, 1:, -axes:].mean(axis=1)
    response = []
    for number, direction in enumerate(directions):
        kept = outcomes.valid & (again.parent // len(best) == number)
        response.append(float((other[kept] @ direction).mean()) if kept.any() else math.nan)
    return {"selection": np.take_along_axis(first, best, axis=0).mean(axis=0).tolist(), "response": response}


def _stds(request: MeasureRequest) -> tuple[float, ...]:
    """Return the standard deviations; raise a ConfigError if two are the same."""
    stds = tuple(np.atleast_1d(request.std).tolist())
    if len(set(stds)) < len(stds) or not stds:
        raise ConfigError(f"--std: expected different numbers, got {list(stds)}")
    if request.starts is not None and request.count < 2 * TENTH:
        raise ConfigError(f"--starts {request.starts} --count {request.count}: expected {2 * TENTH} or more offspring")
    return stds
