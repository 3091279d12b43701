"""`ees-mpi adapt`: adapt a run to a direction, and score it from other starts. The few-shot test of the paper."""

import json
import time
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ees_mpi import machine
from ees_mpi.arrays import Arrays, Singles
from ees_mpi.commands.arguments import path_of
from ees_mpi.commands.export import check_policy, write_policy
from ees_mpi.commands.offspring import (
    Parent,
    check_target,
    draw,
    evaluate_offspring,
    may_replace,
    offspring,
    parent_of_run,
)
from ees_mpi.commands.requests import AdaptRequest, changes_of, check_same
from ees_mpi.commands.shelf import output_beside
from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, RunFileError, TaskError, collective
from ees_mpi.files import replaced
from ees_mpi.generation import NOBODY, Draw, Work
from ees_mpi.noise import Noise
from ees_mpi.ranks import Ranks
from ees_mpi.registry.search import sources
from ees_mpi.registry.toml import Setting, key_of, shown, tables
from ees_mpi.run.evaluators import CpuEvaluator, Evaluator, counting
from ees_mpi.run.parts import open_evaluator, study_work
from ees_mpi.run.starting_point import StartingPoint
from ees_mpi.store.reader import format_of, read_arrays
from ees_mpi.store.writer import write_arrays
from ees_mpi.tasks.base import Say
from ees_mpi.tasks.locomotion import PolicyTask, across, angle_of, direction_name

FORMAT = "ees_mpi adaptation"
ROLLOUTS = "task.rollouts"
MUTATIONS = 40


@dataclass(frozen=True)
class Adaptation:
    """An adaptation file, read."""

    path: Path
    attributes: Mapping[str, Any]  # of the file: method, direction (degrees), training_steps, adaptation_steps, ...
    arrays: Mapping[str, NDArray[Any]]  # by name: "evaluations/fitness" and others; see docs/format.md

    @property
    def fitness(self) -> NDArray[Any]:
        """The fitness of each evaluation of the adapted policy: its final place along the direction."""
        return self.arrays["evaluations/fitness"]

    @property
    def run(self) -> dict[str, Any]:
        """The file's note on the run that was adapted."""
        return dict(json.loads(self.attributes["run"]))

    @cached_property
    def config(self) -> dict[str, Any]:
        """The config of the run, as tables."""
        return tomllib.loads(self.attributes["config"])

    @property
    def algorithm(self) -> str:
        """The name of the objective or the method that trained the run."""
        return str(self.config["objective"]["name"] if "objective" in self.config else self.config["method"])

    def __repr__(self) -> str:
        mean, direction = float(np.nanmean(self.fitness)), self.attributes["direction"]
        return f"<Adaptation {self.path}: {direction:g} degrees, mean fitness {mean:.4g} of {len(self.fitness)}>"


class AdaptedPolicy(NamedTuple):
    """A policy that was adapted to a direction, before it is scored."""

    parameters: Singles  # [D]
    how: str  # "mutation" or "gradient", for the file
    attributes: Mapping[str, Any]
    groups: Mapping[str, Arrays]
    sentence: str  # with {direction}


def adapt(ranks: Ranks, request: AdaptRequest, say: Say) -> Path:
    """Adapt a run with its method, score the result, and write an adaptation file; return its path."""
    check_same(ranks, request, "run", "direction", "evaluations", "settings")
    run, direction = path_of(request.run), str(request.direction)
    with ranks.together():
        angle = angle_of(direction)
    target = Path(request.out or output_beside(run, f"-adapt-{direction_name(angle)}.h5"))
    out = target.absolute()  # code of the user may change the present folder
    check_target(ranks, run, out, request.overwrite)
    with ranks.together():
        one_start, settings = _split(changes_of(request.settings))
    parent = parent_of_run(ranks, request, run, lambda config, _: _to_adapt(config, request, one_start), settings)
    task, policy = parent.config.task, None if request.policy is None else Path(request.policy).absolute()
    with ranks.together():
        if policy and ranks.is_root:
            check_policy(policy, task, run, request.overwrite, "--policy")
        if not isinstance(task, PolicyTask) or task.toward(0.0).heading is None:
            raise ConfigError("adapt: the task of this run has no direction; expected a robot or a Gymnasium task")
        if across(angle, task.axes or task.behavior_dim // len(task.marks)):
            raise ConfigError(f"--direction {direction}: the place has one number; expected left or right")
        task = task.toward(angle)
        if one_start:
            task = msgspec.structs.replace(task, rollouts=1, starts="fixed")
    config = replace(parent.config, task=task)
    if config.method.name == "maml":
        adapted = _by_gradient(ranks, parent, config)
        evaluator: Evaluator = CpuEvaluator(config, Noise(config.noise_seed, config.noise.size), ranks)  # of the mean
    else:
        drawn, noise = draw(ranks, parent, "adapt", parent.about["generation"])
        evaluator = open_evaluator(config, noise, ranks)
        adapted = _by_mutation(ranks, parent, config, drawn, noise, evaluator)
    with closing(evaluator):
        scores = score(ranks, parent, config, adapted.parameters, evaluator, request.evaluations)
    with ranks.together():
        if ranks.is_root:
            code = machine.own_code(sources(parent.config.to_toml()))
            attributes = {
                "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "method": adapted.how,
                "run": json.dumps(parent.about),
                "config": parent.config.to_toml(),
                "direction": task.heading,
                "training_steps": parent.about["training_steps"],
                **({"own_code": json.dumps(code)} if code else {}),
                **adapted.attributes,
            }
            groups = {**adapted.groups, "evaluations": scores}
            named = {f"{group}/{name}": array for group in groups for name, array in groups[group].items()}
            with replaced(out, RunFileError, may_replace(out, request.overwrite)) as fresh:
                write_arrays(fresh, FORMAT, attributes, named)
            if policy:
                _write_policy(policy, task, parent, adapted)
            said, mean = adapted.sentence.format(direction=direction), np.nanmean(scores["fitness"])
            starts = f"{request.evaluations} other start{'s' * (request.evaluations > 1)}"
            say(f"{target}: {said}; from {starts} it ended at {mean:.3f} on average")
            if mean <= 0 and task.begins_at_origin:  # elsewhere a robot may go there and not reach 0
                right = f"{(scores['fitness'] > 0).sum()} of {request.evaluations}"
                away = f"on average it does not go towards {direction} from other starts ({right} do)"
                say(f"note: {away}; ees-mpi docs heritability says why, and what helps")
            if policy:
                page = "plugins" if task.policy else "tutorial"
                say(f"{request.policy}: the adapted policy; `ees-mpi docs {page}` says how to load it")
            else:
                say("The adapted policy is not kept; the same command with --policy FILE.npz --overwrite writes it")
    return out


def _write_policy(out: Path, task: PolicyTask, parent: Parent, adapted: AdaptedPolicy) -> None:
    """Write the adapted parameters as an exported policy; MAML has adapted what else it learned, too."""
    state, config, about = parent.state, parent.config, parent.about
    policy = adapted.groups.get("policy", {})
    others = {name: policy.get(name, array) for name, array in state.learned.items() if name != "mean"}
    std, text = parent.own_std or config.population.std, config.to_toml()
    start = StartingPoint(state.mean, state.observations, std, about, config=text, learned=others)
    write_policy(out, task, start, adapted.parameters, about["training_steps"])


def _split(settings: Sequence[Setting]) -> tuple[bool, list[Setting]]:
    """Return whether the best mutation is chosen from one start, `task.rollouts=1`, and the other settings."""
    others = [setting for setting in settings if key_of(setting) != ROLLOUTS]
    for setting in settings:
        if key_of(setting) == ROLLOUTS and tables({}, [setting], "--set")["task"]["rollouts"] != 1:
            raise ConfigError(f"{shown(setting)}: expected {ROLLOUTS}=1, or no setting: the run's own starts")
    return len(others) < len(settings), others


def _to_adapt(config: Config, request: AdaptRequest, one_start: bool) -> Config:
    """Return the config of a run's mutations; that of the run, if its method adapts in another way."""
    if config.method.name != "maml":
        return offspring(config, request.mutations or MUTATIONS)
    if config.population.has_individuals:
        sample = f"is a sample of a {config.method.algorithm} run"
        raise RunFileError(f"{path_of(request.run)} {sample}; adapt the run itself")
    if request.mutations is not None or one_start:
        options = f"--mutations and --set {ROLLOUTS}"
        raise ConfigError(f"{options}: a {config.method.algorithm} run has no mutations; leave them out")
    return config


def _by_gradient(ranks: Ranks, parent: Parent, config: Config) -> AdaptedPolicy:
    """Return the policy of a MAML run after the adaptation step on a batch of rollouts."""
    from ees_mpi.maml.evaluators import adapt  # imports torch
    from ees_mpi.maml.rollouts import maml_of

    ranks.check_alike(machine.fingerprint(torch=True))
    theta, before = adapt(ranks, config, parent.state, parent.about["generation"])
    settings, split = maml_of(config), parent.state.mean.shape[1]
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


def _by_mutation(
    ranks: Ranks, parent: Parent, config: Config, drawn: Draw, noise: Noise, evaluator: Evaluator
) -> AdaptedPolicy:
    """Return the mutation that goes farthest in the direction of the task."""
    work = study_work(config, parent.state, parent.statistics, drawn, with_mean=False)
    outcomes = evaluate_offspring(evaluator, work, ranks).outcomes
    best = int(np.argmax(np.where(outcomes.valid, outcomes.fitness, -np.inf)))
    chosen = _how_chosen(config)
    return AdaptedPolicy(
        config.population.individual(parent.state.learned, drawn, best, noise),
        "mutation",
        {
            "std": parent.std,
            "best": best,
            "adaptation_steps": int(outcomes.length.sum()),
            "rollouts": config.task.rollouts,
            "chosen": chosen,
        },
        {"mutations": {"fitness": outcomes.fitness, "behavior": outcomes.behavior, "offset": drawn.offset}},
        f"best of {config.population.size} mutations, chosen {chosen}, ended at {outcomes.fitness[best]:.3f} towards "
        "{direction}",
    )


def _how_chosen(config: Config) -> str:
    """Return the starts by which mutations are compared."""
    count, common = config.task.rollouts, config.task.rule_of_starts != "own"
    if count == 1 and common:
        return "from one start"
    own = "" if common else "own "
    return f"by the mean of {count} {own}starts" if count > 1 else "from one own start each"


def score(
    ranks: Ranks, parent: Parent, config: Config, parameters: Singles, evaluator: Evaluator, evaluations: int
) -> dict[str, NDArray[Any]]:
    """Return the outcomes of the adapted parameters from other starts: they are the mean of work that draws nobody."""
    first, state = config.task.start_seed(config.run.seed) + 1, parent.state
    seeds = np.arange(first, first + evaluations)
    adapted = replace(state, learned={**state.learned, "mean": parameters[None]})
    work = Work(adapted, parent.statistics, NOBODY, seeds[:, None], np.zeros(evaluations, np.bool_))
    with counting(evaluator, ranks, evaluations, "scoring", "rollout"):
        scored = evaluator.evaluate(work).means
    if not scored.size:
        raise collective(TaskError(f"none of {evaluations} evaluations of the adapted policy is valid"))
    fitness = np.where(scored.valid, scored.fitness, np.nan)
    return {"fitness": fitness, "behavior": scored.behavior, "reset_seed": seeds}


def is_adaptation(path: Path) -> bool:
    """Return whether `adapt` wrote a file; False for a file that cannot be read, because `open_run` reports it."""
    try:
        return format_of(path) == FORMAT
    except OSError:
        return False


def read_adaptation(path: Path) -> Adaptation:
    return Adaptation(path, *read_arrays(path, FORMAT))
