"""Fresh offspring of a trained mean, and the paper's few-shot test: mutate, keep the best, score it."""

import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import msgspec
import numpy as np

from ees_mpi import config as configs
from ees_mpi import machine, origin
from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, RunFileError, TaskError, collective
from ees_mpi.noise import Noise, NoiseTable
from ees_mpi.outcomes import Draw, Outcome, Outcomes, pack, unpack
from ees_mpi.ranks import Ranks
from ees_mpi.state import State
from ees_mpi.store import journal
from ees_mpi.store.reader import open_run
from ees_mpi.store.writer import RunWriter, check_folder
from ees_mpi.streams import stream
from ees_mpi.tasks import Evaluator
from ees_mpi.training import Clock, Record, describe, with_times

FORMAT = "ees_mpi adaptation"
LEFT_RIGHT = {"right": 0.0, "left": 180.0}


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for."""

    run: Path
    count: int
    generation: int | None = None
    std: float | None = None
    component: int | None = None


@dataclass(frozen=True)
class Parent:
    """A trained mean with everything that it takes to make and evaluate its offspring; the same on every rank."""

    config: Config  # of the offspring: their number, their standard deviation, no antithetic pairs
    state: State
    about: dict[str, Any]  # which run and generation it is


def parent(ranks: Ranks, wanted: Wanted, purpose: str) -> tuple[Parent, Draw, NoiseTable]:
    """Read a run on rank 0, tell all ranks, and draw offspring; bits depend on the run and the purpose only."""
    found = None
    ranks.check_alike(machine.fingerprint())
    with ranks.together():
        if ranks.first:
            found = _read(wanted)
    record = journal.tell_everyone(ranks, found)
    config = configs.parse(record["config"])
    ranks.watch(60 * config.run.stall_minutes)
    state = State(0, record["state"]["mean"], {}, record["state"]["observations"])
    noise = NoiseTable(config.noise_seed, config.noise.size, ranks)
    generator = stream(config.run.seed, purpose, record["about"]["generation"])
    drawn: Draw = config.population.draw(generator, noise, config.task.parameters)
    if wanted.component is not None:
        drawn = replace(drawn, parent=np.full(wanted.count, wanted.component, np.int32))
    return Parent(config, state, record["about"]), drawn, noise


def _read(wanted: Wanted) -> dict[str, Any]:
    with open_run(wanted.run) as run:
        if run.generations == 0 and wanted.generation is None:
            raise RunFileError(f"{wanted.run} has no committed generation yet")
        found = origin.read(run, wanted.generation)
        run.check_noise(Noise(run.config.noise_seed, run.config.noise.size))
        config = run.config
        steps = int(np.asarray(run["length"][:]).sum())
    if wanted.component is not None and not 0 <= wanted.component < len(found.mean):
        raise ConfigError(f"--component {wanted.component}: expected 0 to {len(found.mean) - 1}")
    changes: dict[str, Any] = {"size": wanted.count, "antithetic": False, "std": wanted.std or config.population.std}
    config = replace(
        config,
        population=msgspec.structs.replace(config.population, **changes),
        run=msgspec.structs.replace(config.run, generations=1),
    )
    configs.check(config)
    return {
        "config": config.to_toml(),
        "about": {**found.about, "training_steps": steps},
        "state": {"mean": found.mean, "observations": found.observations},
    }


def evaluate(ranks: Ranks, mother: Parent, drawn: Draw, noise: NoiseTable, evaluator: Evaluator) -> Outcomes:
    """Evaluate the offspring, shared out among the ranks."""
    config, state = mother.config, mother.state
    statistics = state.observation_mean_std()
    outcomes: list[Outcome] = []
    for index in ranks.deal(config.population.size):
        z = config.population.individual(state.mean, drawn, index, noise)
        outcomes.append(evaluator.evaluate(index, z, *statistics, False))
    gathered = _gathered(ranks, outcomes, config)
    if gathered.size < 2:
        raise collective(
            TaskError(f"{len(gathered.valid) - gathered.size} of {len(gathered.valid)} rollouts are not finite")
        )
    return gathered


def _gathered(ranks: Ranks, outcomes: list[Outcome], config: Config, total: int | None = None) -> Outcomes:
    index = np.array([outcome.index for outcome in outcomes], np.int64)
    rows = ranks.gather_by_index(index, pack(outcomes, config.task.behavior_dim), total or config.population.size)
    return unpack(rows, np.zeros((0, 1)))


def sample(ranks: Ranks, wanted: Wanted, out: Path, overwrite: bool, say: Any) -> None:
    """Evaluate fresh offspring and write them as a run file of one generation."""
    _check_target(ranks, out, overwrite)
    mother, drawn, noise = parent(ranks, wanted, "sample")
    with ranks.together():
        evaluator = mother.config.task.open(mother.config.run.seed)
    clock = Clock()
    outcomes = evaluate(ranks, mother, drawn, noise, evaluator)
    evaluator.close()
    clock.lap("evaluate")
    clock.lap("gather")  # done with the last rollout
    config, state = mother.config, mother.state
    nothing = np.full(config.task.behavior_dim, np.nan)
    arrays = {
        **describe(config, state, drawn, outcomes, ranks),
        "gradient_norm": np.array(np.nan),
        "mean_behavior": nothing,
        "mean_fitness": np.array(np.nan),
    }
    clock.lap("update")
    record = with_times(Record(0, arrays, clock.seconds), state.digest(), 0.0, ranks)
    with ranks.together():
        if ranks.first:
            note = json.dumps(mother.about)
            writer = RunWriter.create(out, config, state.arrays(), overwrite, kind="sample", started_from=note)
            writer.begin_session(0, ranks.size, ranks.nodes, machine.fingerprint())
            writer.commit(0, record.arrays, state.arrays())
            writer.close()
            say(f"{out}: {config.population.size} offspring of generation {mother.about['generation']} of {wanted.run}")


def adapt(ranks: Ranks, wanted: Wanted, direction: str, evaluations: int, out: Path, overwrite: bool, say: Any) -> None:
    """Keep the best of some mutations in a direction, score it on other reset seeds, and write what came of it."""
    _check_target(ranks, out, overwrite)
    mother, drawn, noise = parent(ranks, wanted, "adapt")
    with ranks.together():
        task = _towards(mother.config.task, direction)
        evaluator = task.open(mother.config.run.seed)
    outcomes = evaluate(ranks, mother, drawn, noise, evaluator)
    evaluator.close()
    best = int(np.nanargmax(outcomes.fitness))
    seeds = [task.seed(mother.config.run.seed) + 1 + number for number in range(evaluations)]
    z = mother.config.population.individual(mother.state.mean, drawn, best, noise)
    scores = []
    for number in ranks.deal(evaluations):
        other = msgspec.structs.replace(task, reset_seed=seeds[number]).open(0)
        scores.append(other.evaluate(number, z, *mother.state.observation_mean_std(), False))
        other.close()
    scored = _gathered(ranks, scores, mother.config, evaluations)
    with ranks.together():
        if ranks.first:
            _write(out, mother, drawn, outcomes, best, scored, seeds, task.direction)
            say(
                f"{out}: best of {wanted.count} mutations went {outcomes.fitness[best]:.3f} towards {direction}; ",
                nl=False,
            )
            say(f"mean of {evaluations} evaluations {np.nanmean(scored.fitness):.3f}")


def _towards(task: Any, direction: str) -> Any:
    """Return the task with another direction, if it has one."""
    if not hasattr(task, "direction") or getattr(task, "fitness", "behavior") == "reward":
        raise ConfigError("adapt: this run's task has no direction to adapt to; expected a walking task")
    try:
        angle = LEFT_RIGHT.get(direction)
        angle = float(direction.removesuffix("deg")) if angle is None else angle
    except ValueError:
        raise ConfigError(f"--direction {direction}: expected left, right or an angle in degrees") from None
    return msgspec.structs.replace(task, direction=angle)


def _write(
    out: Path,
    mother: Parent,
    drawn: Draw,
    outcomes: Outcomes,
    best: int,
    scored: Outcomes,
    seeds: list[int],
    direction: float,
) -> None:
    """Write an adaptation file: made beside its place and renamed, so that it is whole or not there."""
    fresh = out.with_name(out.name + ".new")
    with h5py.File(fresh, "w") as file:
        file.attrs.update(
            {
                "format": FORMAT,
                "format_version": 1,
                "method": "mutation",
                "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "run": json.dumps(mother.about),
                "config": mother.config.to_toml(),
                "direction": direction,
                "std": mother.config.population.std,
                "best": best,
                "training_steps": mother.about["training_steps"],
                "adaptation_steps": int(outcomes.length.sum()),
            }
        )
        mutations = {"fitness": outcomes.fitness, "behavior": outcomes.behavior, "offset": drawn.offset}
        for name, array in mutations.items():
            file[f"mutations/{name}"] = array
        scores = {"fitness": scored.fitness, "behavior": scored.behavior, "reset_seed": np.array(seeds)}
        for name, array in scores.items():
            file[f"evaluations/{name}"] = array
    os.replace(fresh, out)


def _check_target(ranks: Ranks, out: Path, overwrite: bool) -> None:
    """Refuse a target that cannot be written, before anything is evaluated."""
    with ranks.together():
        if ranks.first:
            check_folder(out)
            if out.exists() and not overwrite:
                raise RunFileError(f"{out} exists already; use --overwrite to replace it")
