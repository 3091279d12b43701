"""`ees-mpi measure`: how evolvable a policy is. Offspring of one policy, for several standard deviations.

The file is a run file of kind `measure`: row g holds the offspring of standard deviation g. All rows have the same
noise vectors, so that they differ in the standard deviation only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ees_mpi import config as configs
from ees_mpi import machine
from ees_mpi.commands.api import computing, open_on_all_ranks
from ees_mpi.commands.arguments import SMALLEST, file_name, policy_source, positives, settings_of, whole
from ees_mpi.commands.study import Row, check_target, evaluated, write
from ees_mpi.config import Config
from ees_mpi.contracts import Say
from ees_mpi.errors import ConfigError
from ees_mpi.generation.evaluation import Evaluation
from ees_mpi.generation.results import Record
from ees_mpi.generation.rollouts import Statistics
from ees_mpi.generation.state import State
from ees_mpi.noise import NoiseTable, stream
from ees_mpi.outcomes import Arrays
from ees_mpi.ranks import Ranks, call
from ees_mpi.registry import loaded
from ees_mpi.registry.toml import Setting
from ees_mpi.runs import policy_fit, starting_point
from ees_mpi.runs.broadcast import read_on_root
from ees_mpi.runs.policy_files import PolicySource
from ees_mpi.runs.starting_point import StartingPoint
from ees_mpi.store.reader import Run

DIAGONAL = "ees_mpi.populations.diagonal:Diagonal"  # logs the standard deviation of each row
COUNT = 1000


@dataclass(frozen=True)
class MeasureRequest:
    """The options of `ees-mpi measure`."""

    policy: PolicySource
    std: tuple[float, ...]
    task: str | None = None  # a preset or a config file; None: the config of a run or of an exported policy
    count: int = COUNT
    settings: Sequence[Setting] = ()
    label: str = ""
    out: Path = Path("measure.h5")
    overwrite: bool = False


def measure(
    policy: Any,
    task: str | None = None,
    std: float | Sequence[float] = (0.01, 0.02, 0.05),
    count: int = COUNT,
    out: str | Path = "measure.h5",
    settings: Mapping[str, Any] | None = None,
    layers: Sequence[str] = (),
    normaliser: str | Path | None = None,
    activation: str | Sequence[str] = (),
    label: str = "",
    overwrite: bool = False,
) -> Run:
    """Measure a policy as `ees-mpi measure` does, and return the open file; under mpirun all ranks call it.

    policy: a file, "module:function", a function, a torch module, or named arrays
    layers, normaliser, activation: as the options of `ees-mpi measure`
    settings: changes of the config, {"task.steps": 100}
    """
    stds = positives("std", std)
    count, changes = whole("count", count, 2), settings_of(settings)
    target, source = file_name("out", out), None if task is None else str(file_name("task", task))
    given = policy_source("policy", policy, layers, normaliser, activation)
    request = MeasureRequest(given, stds, source, count, changes, str(label), target, overwrite)

    def job(ranks: Ranks) -> Run:
        measure_on(ranks, request, lambda line: None)
        return open_on_all_ranks(ranks, target, True)

    with computing(False):
        return call("measure", job)


def measure_on(ranks: Ranks, request: MeasureRequest, say: Say) -> None:
    """Evaluate the offspring of a policy, and write a file with a row for each standard deviation."""
    named = request.policy.policy if isinstance(request.policy.policy, (str, Path)) else ""
    check_target(ranks, Path(named), request.out, request.overwrite)
    ranks.check_alike(machine.fingerprint())
    config, received = read_on_root(ranks, partial(_read, request))
    for note in config.notes if ranks.first else ():
        say(note)
    ranks.set_stall_limit(60 * config.run.stall_minutes)
    state, rows = received["state"], _rows(received["state"], request.std)
    evaluation = Evaluation(config, NoiseTable(config.noise_seed, config.noise.size, ranks), ranks)
    records = _evaluate(evaluation, rows, (state["center"], state["spread"]), say)
    with ranks.together():
        if ranks.first:
            write(evaluation, request.out, "measure", received["about"], rows, records)
            kind = f"offspring of {named or 'the policy'} at each of {len(rows)} stds"
            say(f"{request.out}: {config.population.size} {kind}")


def _check(request: MeasureRequest) -> None:
    """Raise a ConfigError if the numbers of a request cannot be used."""
    if not request.std or not all(SMALLEST <= std <= 1 / SMALLEST for std in request.std):
        raise ConfigError(f"--std: expected numbers above 0 with commas between them, got {list(request.std)}")
    if len(set(request.std)) < len(request.std):
        raise ConfigError(f"--std: expected different numbers, got {list(request.std)}")
    if request.count < 2:
        raise ConfigError(f"--count {request.count}: expected at least 2")


def _read(request: MeasureRequest) -> dict[str, Any]:
    """Return the config and the state of a measurement, on rank 0."""
    _check(request)
    start, config = _policy_and_config(request)
    population = loaded(DIAGONAL)(
        size=request.count,
        std=min(request.std),
        antithetic=False,
        std_floor=min(request.std),
        std_ceiling=max(request.std),
    )
    run = msgspec.structs.replace(config.run, generations=len(request.std), needs_start=False)
    config = replace(config, population=population, run=run)
    configs.check(config)
    _check_fits(request, start, config)
    size = config.task.observation_dim
    if start.foreign is not None and not len(start.foreign.mean):
        start = replace(start, observations=np.zeros(1 + 2 * size))
    mean, std = State(0, {"mean": start.mean}, {}, start.observations).observation_mean_std()
    if start.foreign is not None and len(start.foreign.mean):
        mean, std = start.foreign.mean, start.foreign.std  # exactly: training has a floor for the std
    if len(mean) != size:
        raise ConfigError(f"{request.policy}: it normalises {len(mean)} observations; the task has {size}")
    label = {"objective": request.label} if request.label else {}
    return {
        "config": config,
        "about": {**start.about, **label},
        "state": {"mean": start.mean, "observations": start.observations, "center": mean, "spread": std},
    }


def _policy_and_config(request: MeasureRequest) -> tuple[StartingPoint, Config]:
    """Return the policy, and the config of the task with the hidden layers of the policy."""
    own = None if request.task is None else configs.load(request.task, request.settings)
    if request.policy.foreign and own is None:
        raise ConfigError("measure: expected --task PRESET: the policy does not say in which task it acts")
    start = starting_point.load(request.policy, request.label)
    if len(start.mean) > 1:
        raise ConfigError(
            f"{request.policy} has {len(start.mean)} means; export one: ees-mpi export --policy --component"
        )
    if own is None:
        own = configs.parse(start.config, request.settings, f"the config in {request.policy}")
    return start, policy_fit.fitted(own, start.foreign) if start.foreign else own


def _check_fits(request: MeasureRequest, start: StartingPoint, config: Config) -> None:
    """Raise a ConfigError if the task has another network than the run or the exported policy."""
    if start.foreign:
        return
    sizes = start.mean.shape[1], len(start.observations) // 2
    expected = config.task.parameters, config.task.observation_dim
    if sizes != expected or (start.layers and start.layers != tuple(config.task.layers)):
        raise ConfigError(
            f"{request.policy}: it has {sizes[0]} parameters and {sizes[1]} observations; the task has {expected[0]} "
            f"and {expected[1]}: another network (--set task.hidden=...) or another task"
        )
    policy_fit.check_network(str(request.policy), start.config, config)


def _rows(received: Arrays, stds: Sequence[float]) -> list[Row]:
    """Return a row for each standard deviation, of all parameters."""
    rows = []
    for number, std in enumerate(stds):
        learned = {"mean": received["mean"], "std": np.full(received["mean"].shape, std, np.float32)}
        state, after = (State(each, learned, {}, received["observations"]) for each in (number, number + 1))
        rows.append(Row(state, after, number, f"std {std:g}"))
    return rows


def _evaluate(evaluation: Evaluation, rows: Sequence[Row], statistics: Statistics, say: Say) -> list[Record]:
    """Evaluate the offspring at all standard deviations, with the same noise vectors; the policy itself once."""
    config, records, mean = evaluation.config, [], None
    drawn = config.population.draw(stream(config.run.seed, "measure"), evaluation.noise, config.task.parameters)
    for row in rows:
        record, mean = evaluated(evaluation, row, drawn, statistics, mean)
        records.append(record)
        if evaluation.ranks.first:
            say(f"{row.name}: {record['valid'].sum()} of {config.population.size} rollouts are valid")
    evaluation.close()
    return records
