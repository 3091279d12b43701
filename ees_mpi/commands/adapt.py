"""`ees-mpi adapt`: adapt a run to a direction, and score it from other starts. The few-shot test of the paper."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from ees_mpi.commands.sample import Parent, SampleRequest, check_target, evaluate, gather, read_parent
from ees_mpi.contracts import Say, Task
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.files import replaced
from ees_mpi.generation.evaluation import Evaluation, from_starts
from ees_mpi.outcomes import Singles
from ees_mpi.ranks import Ranks
from ees_mpi.registry import loaded
from ees_mpi.runs.progress import CountedOutcomes
from ees_mpi.store import texts
from ees_mpi.store.reader import open_run
from ees_mpi.store.safety import damage_reported, open_hdf5
from ees_mpi.tasks.locomotion import across, angle_of, direction_name

FORMAT = "ees_mpi adaptation"
MUTATIONS = 40


@dataclass(frozen=True)
class AdaptRequest:
    """The options of `ees-mpi adapt`."""

    run: Path
    direction: str
    mutations: int | None = None
    evaluations: int = 10
    generation: int | None = None
    std: float | None = None
    settings: tuple[str, ...] = ()  # changes of the engine and the device


@dataclass(frozen=True)
class Adapted:
    """The result of an adaptation, before it is scored."""

    parent: Parent
    task: Task  # with the wanted direction
    parameters: Singles  # [D], adapted
    how: str  # "mutation" or "gradient", for the file
    attributes: Mapping[str, Any]
    groups: Mapping[str, Mapping[str, NDArray[Any]]]
    sentence: str
    evaluation: Evaluation | None = None  # for scoring; None: on CPUs


@dataclass(frozen=True)
class Adaptation:
    """An adaptation file, read."""

    path: Path
    attributes: Mapping[str, Any]  # of the file: method, direction (degrees), training_steps, adaptation_steps, ...
    arrays: Mapping[str, NDArray[Any]]  # by name: "evaluations/fitness" and others; see docs/format.md

    @property
    def fitness(self) -> NDArray[Any]:
        """The fitness of each evaluation of the adapted policy: how far it went in the direction."""
        return self.arrays["evaluations/fitness"]

    def __repr__(self) -> str:
        mean, direction = float(np.nanmean(self.fitness)), self.attributes["direction"]
        return f"<Adaptation {self.path}: {direction:g} degrees, mean fitness {mean:.4g} of {len(self.fitness)}>"


def adapt(ranks: Ranks, request: AdaptRequest, out: Path, overwrite: bool, say: Say) -> None:
    """Adapt a run with its method, score the result, and write an adaptation file."""
    check_target(ranks, request.run, out, overwrite)
    hook = b""
    with ranks.together():
        if ranks.first:
            with open_run(request.run) as run:
                hook = run.config.method.hooks.adapt.encode()
    adapted: Adapted = loaded(ranks.from_first(hook).decode())(ranks, request)
    scores = score(ranks, adapted, request.evaluations)
    with ranks.together():
        if ranks.first:
            write(out, adapted, {**adapted.groups, "evaluations": scores})
            mean = np.nanmean(scores["fitness"])
            say(f"{out}: {adapted.sentence}; mean of {request.evaluations} evaluations {mean:.3f}")


def by_mutation(ranks: Ranks, request: AdaptRequest) -> Adapted:
    """Return the mutation that goes farthest in a direction."""
    count = request.mutations or MUTATIONS
    sampled = SampleRequest(request.run, count, request.generation, request.std, settings=request.settings)
    parent, drawn, noise = read_parent(ranks, sampled, "adapt")
    with ranks.together():
        task = toward(parent.config.task, request.direction)
    evaluation = Evaluation(replace(parent.config, task=task), noise, ranks)
    outcomes = evaluate(evaluation, parent, drawn)
    best = int(np.nanargmax(outcomes.fitness))
    std = float(np.median(parent.state.learned.get("std", parent.config.population.std)))  # of all parameters
    return Adapted(
        parent,
        task,
        parent.config.population.individual(parent.state.learned, drawn, best, noise),
        "mutation",
        {"std": std, "best": best, "adaptation_steps": int(outcomes.length.sum())},
        {"mutations": {"fitness": outcomes.fitness, "behavior": outcomes.behavior, "offset": drawn.offset}},
        f"best of {count} mutations went {outcomes.fitness[best]:.3f} towards {request.direction}",
        evaluation,
    )


def score(ranks: Ranks, adapted: Adapted, evaluations: int) -> dict[str, NDArray[Any]]:
    """Return the outcomes of the adapted parameters from other starts."""
    parent, task, evaluation = adapted.parent, adapted.task, adapted.evaluation
    seeds = [task.start_seed(parent.config.run.seed) + 1 + number for number in range(evaluations)]
    statistics = parent.state.observation_mean_std()
    scores = CountedOutcomes(ranks, evaluations, "scoring")
    try:
        if evaluation:
            evaluation.from_starts(adapted.parameters, seeds, statistics, scores)
            evaluation.close()
        else:
            from_starts(ranks, task, adapted.parameters, seeds, statistics, scores)
    finally:
        scores.close()
    scored = gather(ranks, list(scores.values()), parent.config, evaluations)
    return {"fitness": scored.fitness, "behavior": scored.behavior, "reset_seed": np.array(seeds)}


def toward(task: Task, direction: str) -> Task:
    """Return the task with another direction; raise a ConfigError if it has none."""
    if task.heading is None:
        raise ConfigError("adapt: the task of this run has no direction; expected a walking task")
    angle = angle_of(direction, "--direction")
    if across(angle, task.behavior_dim):
        raise ConfigError(f"--direction {direction}: this robot moves along x only; expected left or right")
    return task.toward(angle)


def default_name(run: Path, direction: str) -> Path:
    """Return the name of the adaptation file of a run: RUN-adapt-left.h5, or RUN-adapt-45deg.h5."""
    return run.with_name(f"{run.stem}-adapt-{direction_name(angle_of(direction, '--direction'))}.h5")


def write(out: Path, adapted: Adapted, groups: Mapping[str, Mapping[str, NDArray[Any]]]) -> None:
    """Write an adaptation file."""
    with replaced(out, RunFileError) as fresh, h5py.File(fresh, "w") as file:
        texts.put(
            file,
            {
                "format": FORMAT,
                "format_version": 1,
                "method": adapted.how,
                "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "run": json.dumps(adapted.parent.about),
                "config": adapted.parent.config.to_toml(),
                "direction": adapted.task.heading,
                "training_steps": adapted.parent.about["training_steps"],
                **adapted.attributes,
            },
        )
        for group, arrays in groups.items():
            for name, array in arrays.items():
                file[f"{group}/{name}"] = array


def read_adaptation(path: Path) -> Adaptation:
    """Read an adaptation file."""
    with open_hdf5(path) as file, damage_reported(path):
        attributes = texts.attributes(file)
        if attributes.get("format") != FORMAT:
            raise RunFileError(f"{path} is not an adaptation file of ees_mpi")
        names = [f"{group}/{name}" for group in file for name in file[group]]
        return Adaptation(path, attributes, {name: file[name][()] for name in names})
