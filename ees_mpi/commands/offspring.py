"""`ees-mpi sample`: new offspring of a trained mean. `ees-mpi measure`: how evolvable any policy is.

Both write a study: a run file of kind `study`, whose rows are settings, not generations of training: `sample` has one
standard deviation, `measure` several. All rows have the same noise vectors. `adapt` and `verify` take the outcomes.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ees_mpi import config as configs
from ees_mpi import machine, terminal
from ees_mpi.commands import shelf
from ees_mpi.commands.arguments import path_of
from ees_mpi.commands.requests import AdaptRequest, MeasureRequest, SampleRequest, changes_of, check_same, policy_of
from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, RunFileError, TaskError, before_rollouts, collective
from ees_mpi.files import check_folder, check_new, check_writable, replaced
from ees_mpi.foreign import policy_fit
from ees_mpi.foreign.policy_files import PolicySource
from ees_mpi.generation.evaluation import Evaluation, Work
from ees_mpi.generation.packing import pack, unpack
from ees_mpi.generation.results import Clock, Record, describe, uses_torch, with_times
from ees_mpi.generation.rollouts import Statistics
from ees_mpi.generation.state import State
from ees_mpi.noise import NoiseTable, stream
from ees_mpi.outcomes import Arrays, Draw, Outcome, Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.registry.plugins import sources
from ees_mpi.registry.search import beside
from ees_mpi.registry.toml import Setting, key_of, shown, tables
from ees_mpi.run import writing
from ees_mpi.run.file import check_ours
from ees_mpi.runs import starting_point
from ees_mpi.runs.broadcast import read_on_root, set_limit
from ees_mpi.runs.progress import CountedOutcomes
from ees_mpi.runs.starting_point import StartingPoint
from ees_mpi.store import journal
from ees_mpi.strategy.populations.diagonal import RANGE, Diagonal
from ees_mpi.tasks.rollouts import Say

ENGINE_KEYS = ("task.engine", "task.device")
STDS = (0.01, 0.02, 0.05)  # of `measure`, for policies of other programs
TIMES = (0.5, 1.0, 2.0)  # the run's own, for other policies
AS_IT_IS_NOW = "The results are those of the code as it is now; for those of the run, bring back the code of then"
KIND = "study"  # of its file
OPTIONS = {"population.std": "--std", "population.size": "--count"}  # of `measure`, in place of keys
START_KEYS = ("task.rollouts", "task.starts")  # that its `--starts` sets


@dataclass(frozen=True)
class Parent:
    """Learned arrays with everything that their offspring need; the same on every rank."""

    config: Config  # of the offspring: their number, their standard deviation, no antithetic pairs
    state: State
    statistics: Statistics  # that normalise the observations
    about: dict[str, Any]  # the run and the generation, or the policy
    inherited: Arrays  # moments that the method hands on
    own_std: float | None  # of the run; None: another program made the policy

    @property
    def std(self) -> float:
        """The standard deviation of the offspring; the median of a learned one."""
        return float(np.median(self.state.learned.get("std", self.config.population.std)))


def sample(ranks: Ranks, request: SampleRequest, say: Say) -> Path:
    """Evaluate new offspring, and write a run file of one generation; return its path."""
    check_same(ranks, request, "count")
    run = path_of(request.run)
    named = Path(request.out or shelf.output_beside(run, "-sample.h5"))
    out = named.absolute()  # code of the user may change the present folder
    check_target(ranks, run, out, request.overwrite)
    settings = changes_of(request.settings)
    parent = parent_of_run(ranks, request, run, lambda config: offspring(config, request.count, request.std), settings)
    drawn = draw(ranks, parent, "sample", parent.about["generation"])
    evaluate(ranks, parent, drawn, {parent.std: parent.state.learned}, out, say, request.overwrite)
    if ranks.is_root:
        say(f"{named}: {request.count} mutations of generation {parent.about['generation']} of {shelf.shown(run)}")
    return out


def on_cpu(run: Path, generation: int | None, trust: bool) -> dict[str, str] | None:
    """Return the settings by which a run or an exported policy is evaluated on the CPU; None: there is no choice."""
    source = PolicySource(run)  # of another program: `sample` refuses it, before any code runs
    text = "" if source.foreign else starting_point.load(source, generation=generation, trust=trust).config
    task = tables(text, (), f"the config in {run}").get("task")
    return {"task.device": "cpu"} if isinstance(task, dict) and "device" in task else None


def parent_of_run(
    ranks: Ranks,
    request: SampleRequest | AdaptRequest,
    run: Path,
    change: Callable[[Config], Config],
    settings: Sequence[Setting],
) -> Parent:
    """Read a run, or a policy that was exported from it, in its own task; only the engine can be another one."""
    with ranks.together():
        for setting in settings:
            if key_of(setting) not in ENGINE_KEYS:
                expected = f"expected {' or '.join(ENGINE_KEYS)}; all other keys are the run's"
                raise ConfigError(f"{shown(setting)}: {expected}")
    source = PolicySource(run)
    wanted: dict[str, Any] = {"generation": request.generation, "trust": request.trust}
    return read_parent(ranks, source, lambda config, _: change(config), settings, **wanted)


def offspring(config: Config, count: int, std: float | None = None) -> Config:
    """Return the config of `count` offspring of a run."""
    run = msgspec.structs.replace(config.run, generations=1)
    population = config.population.offspring(count, std)
    return replace(config, population=population, run=run)


def measure(ranks: Ranks, request: MeasureRequest, say: Say) -> Path:
    """Evaluate the offspring of a policy, and write a file with a row for each standard deviation; return its path."""
    check_same(ranks, request, "std", "starts")
    policy, out = policy_of(request.policy, request), request.target.absolute()
    if request.task and request.task.endswith(".toml"):
        beside(request.task)  # on every rank: rank 0 alone reads the file
    named = request.policy if isinstance(request.policy, str) else ""
    with ranks.together():
        source, _ = starting_point.parse(named)
        for setting in changes_of(request.settings):
            if option := OPTIONS.get(key_of(setting)):
                raise ConfigError(f"{shown(setting)}: measure has an option for it; expected {option}")
            if request.starts and key_of(setting) in START_KEYS:
                raise ConfigError(f"{shown(setting)}: --starts {request.starts} sets it; leave out one of the two")
        stds = _stds(request, None)
        if max(stds) > RANGE * min(stds):
            raise ConfigError(f"--std: expected numbers within a factor of {RANGE:g}, got {list(stds)}")
    check_target(ranks, source, out, request.overwrite)

    def change(config: Config, own: float | None) -> Config:
        return _offspring(request, _stds(request, own), config)

    settings = changes_of(request.settings)
    wanted: dict[str, Any] = {"task": request.task, "label": request.label, "trust": request.trust}
    parent = read_parent(ranks, policy, change, settings, **wanted)
    for note in parent.config.notes if ranks.is_root else ():
        say(note)
    mean, stds = parent.state.mean, _stds(request, parent.own_std)
    rows: dict[float, Arrays] = {std: {"mean": mean, "std": np.full(mean.shape, std, np.float32)} for std in stds}
    drawn = draw(ranks, parent, "measure")
    evaluate(ranks, parent, drawn, rows, out, say, request.overwrite)
    if ranks.is_root:
        of_all = f"each of {len(stds)} stds" if len(stds) > 1 else f"std {stds[0]:g}"
        of_what = shelf.shown(named) if named else "the policy"
        say(f"{request.target}: {request.count} mutations of {of_what} at {of_all}")
    return out


def _stds(request: MeasureRequest, own: float | None) -> tuple[float, ...]:
    """Return the standard deviations of `measure`; `own`: that of the run."""
    if request.std is not None:
        return tuple(np.atleast_1d(request.std).tolist())
    return STDS if own is None else tuple(times * own for times in TIMES)


def _offspring(request: MeasureRequest, stds: Sequence[float], config: Config) -> Config:
    """Return the config of the offspring: a population that logs the standard deviation of each row."""
    population = Diagonal(size=request.count, std=min(stds), antithetic=False)
    run, task = msgspec.structs.replace(config.run, generations=len(stds), needs_start=False), config.task
    if request.starts:
        if "reset_seed" not in task.__struct_fields__:
            lacks = f"--starts: task {config.task_name} has no other starts (task.starts, task.reset_seed)"
            raise ConfigError(f"{lacks}; expected cheetah, ant, mujoco, gymnasium, function or custom")
        unseen = int(stream(task.start_seed(run.seed), "unseen starts").integers(2**31))
        keys: dict[str, Any] = {"rollouts": request.starts, "starts": "fixed", "reset_seed": unseen}
        task = msgspec.structs.replace(task, **keys)
    return replace(config, task=task, population=population, run=run)


def read_parent(
    ranks: Ranks,
    policy: PolicySource,
    change: Callable[[Config, float | None], Config],
    settings: Sequence[Setting],
    task: str | None = None,
    generation: int | None = None,
    label: str = "",
    trust: bool = False,
) -> Parent:
    """Read learned arrays on rank 0, and send them to all ranks.

    change: makes the config of the offspring, with the run's own std; settings: change the config first
    task: a preset or a config file; None: the config of the run or of the exported policy
    """

    @cache
    def load() -> StartingPoint:
        return starting_point.load(policy, label, generation, trust)

    @cache
    def own_config() -> Config:
        return configs.parse(load().config, settings, f"the config in {policy}", trust, stored=True)

    def stall_minutes() -> float:
        if task is None and policy.foreign:
            says = f"{policy} does not say in which task it acts"
            raise ConfigError(f"expected --task PRESET or --task FILE.toml (in Python: task=...), because {says}")
        return (own_config() if task is None else configs.read(task, settings)).run.stall_minutes

    @before_rollouts()
    def read() -> dict[str, Any]:
        config = own_config() if task is None else configs.load(task, settings, trust)
        start = load()
        config = change(policy_fit.fitted(config, start.foreign) if start.foreign else config, start.own_std)
        configs.check(config)
        if len(start.mean) > config.population.components:
            raise ConfigError(f"{policy} has {len(start.mean)} means; export one: ees-mpi export --policy --component")
        if len(start.mean) < config.population.components:
            raise ConfigError(f"{policy} has one mean, and its config a mixture; expected `measure`, or its run")
        start = start.fitted(str(policy), config)
        if changed := starting_point.code_change(start, config):
            terminal.say(f"warning: {changed}. {AS_IT_IS_NOW}")  # Python's `measure`, too, which says nothing else
        mean, std = start.statistics
        about = {**start.about, **({"objective": label} if label else {})}
        if 0 < (start.own_std or 0) <= 1e30:  # a population of the user may learn a `std` of another meaning
            about["own_std"] = start.own_std  # for a measurement of the study
        return {
            "config": config,
            "about": about,
            "state": {
                "mean": start.mean,
                **start.learned,
                "observations": start.observations,
                "observation_mean": mean,
                "observation_std": std,
            },
            "arrays": start.inherited,
            "own_std": start.own_std,
        }

    ranks.check_alike(machine.fingerprint())
    set_limit(ranks, stall_minutes)
    config, received = read_on_root(ranks, read)
    arrays = received["state"]
    learned = {name: arrays.get(name, first) for name, first in config.population.learned(arrays["mean"]).items()}
    statistics = arrays["observation_mean"], arrays["observation_std"]
    state = State(0, learned, {}, arrays["observations"])
    return Parent(config, state, statistics, received["about"], received["arrays"], received["own_std"])


def draw(ranks: Ranks, parent: Parent, *purpose: Any) -> tuple[Draw, NoiseTable]:
    """Draw the offspring of a parent; they depend on the seed of its config and on the purpose only."""
    config = parent.config
    noise = NoiseTable(config.noise_seed, config.noise.size, ranks)
    return config.population.draw(stream(config.run.seed, *purpose), noise, config.task.parameters), noise


def outcomes_of(evaluation: Evaluation, work: Work, count: int, generation: int = -1) -> Outcomes:
    """Return the outcomes of the first individuals on every rank, in index order; number N is the unperturbed mean."""
    with closing(CountedOutcomes(evaluation.ranks, count, "evaluating")) as mine:
        evaluation.run(work, range(count), mine, generation)
    return gather(evaluation.ranks, list(mine.values()), evaluation.config, count, evaluation.config.task.rollouts)


def gather(ranks: Ranks, outcomes: list[Outcome], config: Config, total: int, starts: int = 1) -> Outcomes:
    """Return the outcomes of all ranks on every rank, in index order; `starts`: of each outcome."""
    index = np.array([outcome.index for outcome in outcomes], np.int64)
    rows = ranks.allgather_by_index(index, pack(outcomes, config.task.behavior_dim, starts), total)
    return unpack(rows, np.zeros((0, 1)), starts, config.task.common_starts)


def offspring_of(
    evaluation: Evaluation,
    learned: Arrays,
    drawn: Draw,
    statistics: Statistics,
    row: int = 0,
    with_mean: bool = False,
) -> Outcomes:
    """Return the outcomes of all offspring of learned arrays; `with_mean`: and last that of the unperturbed mean."""
    size = evaluation.config.population.size
    work = Work(learned, drawn, statistics, np.zeros(size, np.bool_))
    outcomes = outcomes_of(evaluation, work, size + with_mean, row)
    if (valid := int(outcomes.valid[:size].sum())) < 2:
        raise collective(TaskError(f"{size - valid} of {size} mutations are not finite"))
    return outcomes


def evaluate(
    ranks: Ranks,
    parent: Parent,
    drawn: tuple[Draw, NoiseTable],
    stds: Mapping[float, Arrays],
    out: Path,
    say: Say,
    overwrite: bool,
) -> None:
    """Evaluate the offspring at each std, with its learned arrays, and the mean itself once; write the file."""
    (draws, noise), began = drawn, time.time()
    evaluation = Evaluation(parent.config, noise, ranks)
    rows: list[tuple[Record, Arrays]] = []  # the record of each, and the state after it
    mean: Arrays = {}
    for number, (std, learned) in enumerate(stds.items()):
        state, after = (State(row, learned, {}, parent.state.observations) for row in (number, number + 1))
        record, mean = _record(evaluation, state, draws, parent.statistics, mean)
        rows.append((with_times(record, after.digest(), 0.0, ranks), after.arrays()))
        if ranks.is_root:
            say(f"std {std:g}: {record['valid'].sum()} of {len(record['valid'])} mutations are valid")
    evaluation.close()
    with ranks.together():
        if ranks.is_root:
            about = {**parent.about, "setting": {"std": list(stds)}}
            note = json.dumps(about)
            here = {**machine.fingerprint(uses_torch(parent.config)), **evaluation.described}
            here |= sources(parent.config.to_toml())
            with replaced(out, RunFileError, overwrite) as fresh:
                writer = writing.create(fresh, parent.config, rows[-1][1], True, kind=KIND, started_from=note)
                writing.begin_session(writer, parent.config, ranks.size, ranks.nodes, here, start=began)
                for record, after_it in rows:
                    writer.append(record.arrays, after_it)
                writer.close()


def _record(
    evaluation: Evaluation, state: State, drawn: Draw, statistics: Statistics, mean: Arrays
) -> tuple[Record, Arrays]:
    """Return the record of a row, and the outcome of the unperturbed mean; `mean`: that outcome, if it is known."""
    clock, size = Clock(), evaluation.config.population.size
    outcomes = offspring_of(evaluation, state.learned, drawn, statistics, state.generation, with_mean=not mean)
    mean = mean or {"fitness_of_mean": outcomes.fitness[-1], "behavior_of_mean": outcomes.behavior[-1]}
    clock.lap("evaluate")
    clock.lap("gather")  # is part of the evaluation here
    arrays = describe(evaluation.config, state, drawn, outcomes.at(np.arange(size)), evaluation.ranks)
    arrays |= {**mean, "gradient_norm": np.array(np.nan)}
    arrays |= {"observation_mean": statistics[0], "observation_std": statistics[1]}
    clock.lap("update")
    return Record(state.generation, arrays, clock.seconds), mean


def check_target(ranks: Ranks, source: Path, out: Path, overwrite: bool) -> None:
    """Raise an error if the output cannot be written or is the input, before anything is evaluated."""
    with ranks.together():
        if ranks.is_root:
            check_folder(out)
            check_writable(out, "--out", sources=[source])
            check_ours(out)
            if journal.path_of(out).exists():
                raise RunFileError(f"{out} names an unfinished run; resume it, or choose another name")
            check_new(out, overwrite)
