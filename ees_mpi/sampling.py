"""Fresh offspring of a trained mean."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
from ees_mpi.store.reader import Run, open_run
from ees_mpi.store.writer import RunWriter, check_folder
from ees_mpi.streams import stream
from ees_mpi.tasks import Evaluator
from ees_mpi.training import Clock, Record, describe, with_times
from ees_mpi.writing import check_writable

Say = Callable[[str], None]


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
        steps = steps_until(run, found.generation)
    if wanted.component is not None and not 0 <= wanted.component < len(found.mean):
        raise ConfigError(f"--component {wanted.component}: expected 0 to {len(found.mean) - 1}")
    config = replace(
        config,
        population=config.population.mutations(wanted.count, wanted.std),
        run=msgspec.structs.replace(config.run, generations=1),
    )
    configs.check(config)
    return {
        "config": config.to_toml(),
        "about": {**found.about, "training_steps": steps},
        "state": {"mean": found.mean, "observations": found.observations},
    }


def steps_until(run: Run, generation: int) -> int:
    """Return how many steps a run took before a generation."""
    return sum(int(np.asarray(run["length"][g]).sum()) for g in range(generation))


def evaluate(ranks: Ranks, mother: Parent, drawn: Draw, noise: NoiseTable, evaluator: Evaluator) -> Outcomes:
    """Evaluate the offspring, shared out among the ranks."""
    config, state = mother.config, mother.state
    statistics = state.observation_mean_std()
    outcomes: list[Outcome] = []
    for index in ranks.deal(config.population.size):
        z = config.population.individual(state.mean, drawn, index, noise)
        outcomes.append(evaluator.evaluate(index, z, *statistics, False))
    found = gathered(ranks, outcomes, config)
    if found.size < 2:
        raise collective(TaskError(f"{len(found.valid) - found.size} of {len(found.valid)} rollouts are not finite"))
    return found


def gathered(ranks: Ranks, outcomes: list[Outcome], config: Config, total: int | None = None) -> Outcomes:
    """Bring outcomes together on every rank, in index order."""
    index = np.array([outcome.index for outcome in outcomes], np.int64)
    rows = ranks.gather_by_index(index, pack(outcomes, config.task.behavior_dim), total or config.population.size)
    return unpack(rows, np.zeros((0, 1)))


def sample(ranks: Ranks, wanted: Wanted, out: Path, overwrite: bool, say: Say) -> None:
    """Evaluate fresh offspring and write them as a run file of one generation."""
    check_target(ranks, out, overwrite)
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
            fresh = out.with_name(f"{out.name}.new")  # renamed, so that the sample is whole or not there
            writer = RunWriter.create(fresh, config, state.arrays(), True, kind="sample", started_from=note)
            writer.begin_session(0, ranks.size, ranks.nodes, machine.fingerprint(config.uses_torch))
            writer.commit(0, record.arrays, state.arrays())
            writer.close()
            os.replace(fresh, out)
            say(f"{out}: {config.population.size} offspring of generation {mother.about['generation']} of {wanted.run}")


def check_target(ranks: Ranks, out: Path, overwrite: bool) -> None:
    """Refuse a target that cannot be written, before anything is evaluated."""
    with ranks.together():
        if ranks.first:
            check_folder(out)
            if out.exists() and not overwrite:
                raise RunFileError(f"{out} exists already; use --overwrite to replace it")
            check_writable(out, "--out")
