"""`ees-mpi sample`: new offspring of a trained mean. `ees-mpi measure`: how evolvable any policy is.

Both write a study: a run file of kind `study`, whose rows are settings, not generations of training: `sample` has one
standard deviation, `measure` several. All rows have the same noise vectors, and the same starts: those of generation 0.
`adapt` and `verify` take the outcomes.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ees_mpi import config as configs
from ees_mpi import machine, metrics, terminal
from ees_mpi.arrays import Arrays, Floats
from ees_mpi.commands import shelf
from ees_mpi.commands.arguments import path_of
from ees_mpi.commands.requests import AdaptRequest, MeasureRequest, SampleRequest, changes_of, check_same, policy_of
from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, RunFileError, TaskError, before_rollouts, collective
from ees_mpi.files import check_folder, check_new, check_writable, replaced
from ees_mpi.foreign.policy_files import PolicySource
from ees_mpi.generation import Draw, Found, Outcomes, Record, State, Work
from ees_mpi.noise import NoiseTable, stream
from ees_mpi.ranks import Ranks
from ees_mpi.registry.search import sources
from ees_mpi.registry.toml import Setting, key_of, shown, tables
from ees_mpi.run import starting_point
from ees_mpi.run.arrays import layout_of
from ees_mpi.run.evaluators import Evaluator, counting
from ees_mpi.run.file import check_ours
from ees_mpi.run.loop import arrays_of, seal
from ees_mpi.run.parts import config_of_all, noise_table, open_evaluator, study_work, uses_torch
from ees_mpi.run.start import begin_session, create
from ees_mpi.run.starting_point import StartingPoint
from ees_mpi.store import journal
from ees_mpi.strategy.populations.diagonal import RANGE, Diagonal
from ees_mpi.tasks.base import Say

ENGINE_KEYS = ("task.engine", "task.device")
STDS = (0.01, 0.02, 0.05)  # of `measure`, for policies of other programs
TIMES = (0.5, 1.0, 2.0)  # the run's own, for other policies
AS_IT_IS_NOW = "The results are those of the code as it is now; for those of the run, bring back the code of then"
KIND = "study"  # of its file
OPTIONS = {"population.std": "--std", "population.size": "--count"}  # of `measure`, in place of keys
START_KEYS = ("task.rollouts", "task.starts")  # that its `--starts` sets
Change = Callable[[Config, float | None], Config]  # (config, std of the run): that of the offspring


@dataclass(frozen=True)
class Parent:
    """Learned arrays with everything that their offspring need; the same on every rank."""

    config: Config  # of the offspring: their number, their standard deviation, no antithetic pairs
    state: State
    statistics: tuple[Floats, Floats]  # that normalise the observations
    about: dict[str, Any]  # the run and the generation, or the policy
    own_std: float | None  # of the run; None: another program made the policy

    @property
    def std(self) -> float:
        """The standard deviation of the offspring; the median of a learned one."""
        return float(np.median(self.state.learned.get("std", self.config.population.std)))


def sample(ranks: Ranks, request: SampleRequest, say: Say) -> Path:
    """Evaluate new offspring, and write a run file of one generation; return its path."""
    check_same(ranks, request, "run")
    run = path_of(request.run)
    named = Path(request.out or shelf.output_beside(run, "-sample.h5"))
    out = named.absolute()  # code of the user may change the present folder
    check_target(ranks, run, out, request.overwrite)
    settings = changes_of(request.settings)
    parent = parent_of_run(
        ranks, request, run, lambda config, _: offspring(config, request.count, request.std), settings
    )
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
    change: Change,
    settings: Sequence[Setting],
) -> Parent:
    """Read a run, or a policy that was exported from it, in its own task; only the engine can be another one."""
    with ranks.together():
        for setting in settings:
            if key_of(setting) not in ENGINE_KEYS:
                expected = f"expected {' or '.join(ENGINE_KEYS)}; all other keys are the run's"
                raise ConfigError(f"{shown(setting)}: {expected}")
    source = PolicySource(run)
    return read_parent(ranks, source, change, settings, generation=request.generation, trust=request.trust)


def offspring(config: Config, count: int, std: float | None = None) -> Config:
    """Return the config of `count` offspring of a run."""
    run = msgspec.structs.replace(config.run, generations=1)
    population = config.population.offspring(count, std)
    return replace(config, population=population, run=run)


def measure(ranks: Ranks, request: MeasureRequest, say: Say) -> Path:
    """Evaluate the offspring of a policy, and write a file with a row for each standard deviation; return its path."""
    check_same(ranks, request, *(["policy"] if isinstance(request.policy, str) else []), "std", "starts")
    policy, out = policy_of(request.policy, request), request.target.absolute()
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
    change, settings = partial(_offspring, request), changes_of(request.settings)
    parent = read_parent(ranks, policy, change, settings, task=request.task, label=request.label, trust=request.trust)
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


def _offspring(request: MeasureRequest, config: Config, own: float | None) -> Config:
    """Return the config of the offspring: a population that logs the standard deviation of each row."""
    stds = _stds(request, own)
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
    change: Change,
    settings: Sequence[Setting],
    task: str | None = None,
    generation: int | None = None,
    label: str = "",
    trust: bool = False,
) -> Parent:
    """Read learned arrays on rank 0, and send them to all ranks.

    change: makes the config of the offspring; settings: change the config first
    task: a preset or a config file; None: the config of the run or of the exported policy
    """

    @cache
    def load() -> StartingPoint:
        return starting_point.load(policy, label, generation, trust)

    def read() -> Config:
        if task is not None:
            return configs.read(task, settings, trust, task_alone=True)
        if policy.foreign:
            says = f"{policy} does not say in which task it acts"
            raise ConfigError(f"expected --task PRESET or --task FILE.toml (in Python: task=...), because {says}")
        return configs.parse(load().config, settings, f"the config in {policy}", trust, stored=True)

    ranks.check_alike(machine.fingerprint())
    asked = config_of_all(ranks, read)

    def prepare() -> Parent:
        config = configs.with_rule_of_starts(asked) if task is None else configs.complete(asked)
        return _parent(config, load(), change, str(policy), label)

    return ranks.from_root(prepare)


@before_rollouts()
def _parent(config: Config, start: StartingPoint, change: Change, policy: str, label: str) -> Parent:
    """Return the parent that a starting point is for a config; see `read_parent`."""
    if config.population.decays:
        population: Any = config.population
        config = replace(config, population=msgspec.structs.replace(population, std=start.std, std_decay=1.0))
    config = change(start.fit(config), start.own_std)
    configs.check(config)
    if len(start.mean) > config.population.components:
        raise ConfigError(f"{policy} has {len(start.mean)} means; export one: ees-mpi export --policy --component")
    if len(start.mean) < config.population.components:
        raise ConfigError(f"{policy} has one mean, and its config a mixture; expected `measure`, or its run")
    start = start.fitted(policy, config)
    if changed := starting_point.code_change(start, config):
        terminal.say(f"warning: {changed}. {AS_IT_IS_NOW}")  # Python's `measure`, too, which says nothing else
    about = {**start.about, **({"objective": label} if label else {})}
    if 0 < (start.own_std or 0) <= 1e30:  # a population of the user may learn a `std` of another meaning
        about["own_std"] = start.own_std  # for a measurement of the study
    known = config.population.learned(start.mean)
    if not config.population.has_individuals:  # MAML adapts with what it has learned, too
        known = {**known, **config.method.learned(config.task)}
    learned = {name: start.learned.get(name, first) for name, first in known.items()}
    state = State(0, {**learned, "mean": start.mean}, {}, start.observations)
    return Parent(config, state, start.statistics, about, start.own_std)


def draw(ranks: Ranks, parent: Parent, *purpose: Any) -> tuple[Draw, NoiseTable]:
    """Draw the offspring of a parent; they depend on the seed of its config and on the purpose only."""
    config, noise = parent.config, noise_table(parent.config, ranks)
    return config.population.draw(stream(config.run.seed, *purpose), noise, config.task.parameters), noise


def evaluate_offspring(evaluator: Evaluator, work: Work, ranks: Ranks) -> Found:
    """Evaluate offspring, and the mean if the work has it; raise a TaskError if fewer than two are valid."""
    with counting(evaluator, ranks, len(work.seeds), "evaluating"):
        found = evaluator.evaluate(work)
    if found.outcomes.size < 2:
        raise collective(TaskError(f"{work.size - found.outcomes.size} of {work.size} mutations are not finite"))
    return found


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
    config, (draws, noise), began = parent.config, drawn, time.time()
    settings, layout = config.metric_settings(), layout_of(config)
    # What `tell` adds to a record, a study has as NaN: nothing is learned.
    nothing = {array.name: np.full(layout.shape(array), np.nan) for array in layout.arrays if array.type == "<f8"}
    rows: list[tuple[Record, State]] = []
    means: Outcomes | None = None
    with closing(open_evaluator(config, noise, ranks)) as evaluator:
        for number, (std, learned) in enumerate(stds.items()):
            state, after = (State(row, learned, {}, parent.state.observations) for row in (0, number + 1))
            work = study_work(config, state, parent.statistics, draws, with_mean=means is None)
            found = evaluate_offspring(evaluator, work, ranks)
            means = means or found.means
            logged = metrics.logged(found.outcomes, settings, ranks)
            arrays = {**nothing, **arrays_of(work, replace(found, means=means)), **logged}
            rows.append((seal(work, after, arrays, {**found.seconds, "update": 0.0, "commit": 0.0}, ranks), after))
            if ranks.is_root:
                say(f"std {std:g}: {found.outcomes.size} of {work.size} mutations are valid")
    with ranks.together():
        if ranks.is_root:
            note = json.dumps({**parent.about, "setting": {"std": list(stds)}})
            here = {**machine.fingerprint(uses_torch(config)), **evaluator.described, **sources(config.to_toml())}
            here["commit"] = machine.commit()
            with replaced(out, RunFileError, may_replace(out, overwrite)) as fresh:
                writer = create(fresh, config, after.arrays(), True, kind=KIND, started_from=note)
                begin_session(writer, config, ranks, here, start=began)
                for record, following in rows:
                    writer.append(record.arrays, following.arrays())
                writer.close()


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


def may_replace(out: Path, overwrite: bool) -> bool:
    """Return whether the finished output may replace a file: not a run that has begun under its name meanwhile."""
    return overwrite and not journal.path_of(out).exists()
