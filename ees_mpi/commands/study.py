"""A study: offspring of learned arrays, evaluated in one or several settings, such as standard deviations.

`sample` and `measure` write a study into a run file of kind `study`: each row is a setting, not a generation of
training, and all rows have the same noise vectors. `adapt` and `verify` take the outcomes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi import config as configs
from ees_mpi import machine
from ees_mpi.config import Config
from ees_mpi.contracts import Say
from ees_mpi.errors import ConfigError, RunFileError, TaskError, collective
from ees_mpi.files import check_writable, replaced
from ees_mpi.generation.evaluation import Evaluation, Work
from ees_mpi.generation.results import Clock, Record, describe, uses_torch, with_times
from ees_mpi.generation.rollouts import Statistics
from ees_mpi.generation.state import State
from ees_mpi.noise import NoiseTable, stream
from ees_mpi.outcomes import Arrays, Draw, Outcome, Outcomes, pack, unpack
from ees_mpi.ranks import Ranks
from ees_mpi.registry.toml import Setting
from ees_mpi.runs import policy_fit, starting_point
from ees_mpi.runs.broadcast import read_on_root
from ees_mpi.runs.policy_files import PolicySource
from ees_mpi.runs.progress import CountedOutcomes
from ees_mpi.store import journal
from ees_mpi.store.safety import check_ours
from ees_mpi.store.writer import RunWriter, check_folder

KIND = "study"  # of its file; files of older versions have the kinds "sample" and "measure"


@dataclass(frozen=True)
class Source:
    """The learned arrays of a study as the user names them, and the task of their offspring."""

    policy: PolicySource
    generation: int | None = None  # of a run
    task: str | None = None  # a preset or a config file; None: the config of the run or of the exported policy
    settings: Sequence[Setting] = ()  # changes of the config
    label: str = ""


@dataclass(frozen=True)
class Parent:
    """Learned arrays with everything that their offspring need; the same on every rank."""

    config: Config  # of the offspring: their number, their standard deviation, no antithetic pairs
    state: State
    statistics: Statistics  # that normalise the observations
    about: dict[str, Any]  # the run and the generation, or the policy
    inherited: Arrays  # moments that the method hands on

    @property
    def std(self) -> float:
        """The standard deviation of the offspring; the median of a learned one."""
        return float(np.median(self.state.learned.get("std", self.config.population.std)))


def read_parent(ranks: Ranks, source: Source, change: Callable[[Config], Config]) -> Parent:
    """Read learned arrays on rank 0, and send them to all ranks; `change`: makes the config of the offspring."""
    ranks.check_alike(machine.fingerprint())
    config, received = read_on_root(ranks, partial(_read, source, change))
    ranks.set_stall_limit(60 * config.run.stall_minutes)
    arrays = received["state"]
    learned = {name: arrays.get(name, first) for name, first in config.population.learned(arrays["mean"]).items()}
    statistics = arrays["observation_mean"], arrays["observation_std"]
    state = State(0, learned, {}, arrays["observations"])
    return Parent(config, state, statistics, received["about"], received["arrays"])


def _read(source: Source, change: Callable[[Config], Config]) -> dict[str, Any]:
    config = None if source.task is None else configs.load(source.task, source.settings)
    if source.policy.foreign and config is None:
        raise ConfigError(
            f"{source.policy} does not say in which task it acts; ees-mpi measure: expected --task PRESET"
        )
    start = starting_point.load(source.policy, source.label, source.generation)
    if config is None:
        config = configs.parse(start.config, source.settings, f"the config in {source.policy}", stored=True)
    config = change(policy_fit.fitted(config, start.foreign) if start.foreign else config)
    configs.check(config)
    if len(start.mean) > config.population.components:
        raise ConfigError(
            f"{source.policy} has {len(start.mean)} means; export one: ees-mpi export --policy --component"
        )
    if len(start.mean) < config.population.components:
        raise ConfigError(f"{source.policy} is one mean of a mixture; sample its run with --component instead")
    start = start.fitted(str(source.policy), config)
    mean, std = start.statistics
    return {
        "config": config,
        "about": {**start.about, **({"objective": source.label} if source.label else {})},
        "state": {
            "mean": start.mean,
            **start.learned,
            "observations": start.observations,
            "observation_mean": mean,
            "observation_std": std,
        },
        "arrays": start.inherited,
    }


def draw(ranks: Ranks, parent: Parent, *purpose: Any) -> tuple[Draw, NoiseTable]:
    """Draw the offspring of a parent; they depend on the seed of its config and on the purpose only."""
    config = parent.config
    noise = NoiseTable(config.noise_seed, config.noise.size, ranks)
    return config.population.draw(stream(config.run.seed, *purpose), noise, config.task.parameters), noise


def outcomes_of(evaluation: Evaluation, work: Work, count: int, generation: int = -1) -> Outcomes:
    """Return the outcomes of the first individuals on every rank, in index order; number N is the unperturbed mean."""
    mine = CountedOutcomes(evaluation.ranks, count, "offspring")
    try:
        evaluation.run(work, range(count), mine, generation)
    finally:
        mine.close()
    return gather(evaluation.ranks, list(mine.values()), evaluation.config, count, evaluation.config.task.rollouts)


def gather(ranks: Ranks, outcomes: list[Outcome], config: Config, total: int, starts: int = 1) -> Outcomes:
    """Return the outcomes of all ranks on every rank, in index order; `starts`: of each outcome."""
    index = np.array([outcome.index for outcome in outcomes], np.int64)
    rows = ranks.allgather_by_index(index, pack(outcomes, config.task.behavior_dim, starts), total)
    return unpack(rows, np.zeros((0, 1)), starts, config.task.common_starts)


def offspring_of(
    evaluation: Evaluation, learned: Arrays, drawn: Draw, statistics: Statistics, row: int = 0, with_mean: bool = False
) -> Outcomes:
    """Return the outcomes of all offspring of learned arrays; `with_mean`: and last that of the unperturbed mean."""
    size = evaluation.config.population.size
    outcomes = outcomes_of(
        evaluation, Work(learned, drawn, statistics, np.zeros(size, np.bool_)), size + with_mean, row
    )
    if (valid := int(outcomes.valid[:size].sum())) < 2:
        raise collective(TaskError(f"{size - valid} of {size} rollouts are not finite"))
    return outcomes


def evaluate(
    ranks: Ranks,
    parent: Parent,
    drawn: tuple[Draw, NoiseTable],
    stds: Mapping[float, Arrays],
    out: Path,
    say: Say,
    further: Callable[[Evaluation, Arrays, Record], Any] | None = None,
) -> None:
    """Evaluate the offspring at each std, with its learned arrays, and the mean itself once; write the file.

    further: evaluates the second generation of each row, and returns a note on it for the file
    """
    draws, noise = drawn
    evaluation = Evaluation(parent.config, noise, ranks)
    rows: list[tuple[Record, Arrays]] = []
    mean: Arrays = {}
    notes: list[Any] = []
    for number, (std, learned) in enumerate(stds.items()):
        state, after = (State(row, learned, {}, parent.state.observations) for row in (number, number + 1))
        record, mean = _record(evaluation, state, draws, parent.statistics, mean)
        rows.append((with_times(record, after.digest(), 0.0, ranks), after.arrays()))
        if further:
            notes.append(further(evaluation, learned, record))
        if ranks.is_root:
            say(f"std {std:g}: {record['valid'].sum()} of {len(record['valid'])} rollouts are valid")
    evaluation.close()
    with ranks.together():
        if ranks.is_root:
            more = {"second_generation": notes} if notes else {}
            _write(evaluation, out, {**parent.about, "setting": {"std": list(stds)}, **more}, rows)


def _record(
    evaluation: Evaluation, state: State, drawn: Draw, statistics: Statistics, mean: Arrays
) -> tuple[Record, Arrays]:
    """Return the record of a row, and the outcome of the unperturbed mean; `mean`: that outcome, if it is known."""
    clock, size = Clock(), evaluation.config.population.size
    outcomes = offspring_of(evaluation, state.learned, drawn, statistics, state.generation, with_mean=not mean)
    mean = mean or {"mean_fitness": outcomes.fitness[-1], "mean_behavior": outcomes.behavior[-1]}
    clock.lap("evaluate")
    clock.lap("gather")  # is part of the evaluation here
    arrays = describe(evaluation.config, state, drawn, outcomes.at(np.arange(size)), evaluation.ranks)
    arrays |= {**mean, "gradient_norm": np.array(np.nan)}
    arrays |= {"observation_mean": statistics[0], "observation_std": statistics[1]}
    clock.lap("update")
    return Record(state.generation, arrays, clock.seconds), mean


def _write(evaluation: Evaluation, out: Path, about: Mapping[str, Any], rows: Sequence[tuple[Record, Arrays]]) -> None:
    """Write the file of a study, on rank 0; `rows`: the record of each, and the state after it."""
    config, ranks = evaluation.config, evaluation.ranks
    with replaced(out, RunFileError) as fresh:
        writer = RunWriter.create(fresh, config, rows[-1][1], True, kind=KIND, started_from=json.dumps(about))
        here = {**machine.fingerprint(uses_torch(config)), **evaluation.described}
        writer.begin_session(0, ranks.size, ranks.nodes, here)
        for record, state in rows:
            writer.commit(record.generation, record.arrays, state)
        writer.close()


def check_target(ranks: Ranks, source: Path, out: Path, overwrite: bool) -> None:
    """Raise an error if the output cannot be written or is the input, before anything is evaluated."""
    with ranks.together():
        if ranks.is_root:
            check_folder(out)
            if out.exists() and not overwrite:
                raise RunFileError(f"{out} exists already; use --overwrite to replace it")
            check_writable(out, "--out", sources=[source])
            check_ours(out)
            if journal.path_of(out).exists():
                raise RunFileError(
                    f"{out} is the name of an unfinished run; delete its journal first, or choose another"
                )
