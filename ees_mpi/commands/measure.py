"""`ees-mpi measure`: how evolvable a policy is. Offspring of one policy, for several standard deviations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ees_mpi.commands.api import computing, open_on_all_ranks
from ees_mpi.commands.arguments import SMALLEST, file_name, policy_source, positives, settings_of, whole
from ees_mpi.commands.study import Source, check_target, draw, evaluate, read_parent
from ees_mpi.config import Config
from ees_mpi.contracts import Say
from ees_mpi.errors import ConfigError
from ees_mpi.outcomes import Arrays
from ees_mpi.ranks import Ranks, call
from ees_mpi.registry import loaded
from ees_mpi.registry.toml import Setting
from ees_mpi.runs.policy_files import PolicySource
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
    with ranks.together():
        _check(request)
    source = Source(request.policy, None, request.task, request.settings, request.label)
    parent = read_parent(ranks, source, partial(_offspring, request))
    for note in parent.config.notes if ranks.is_root else ():
        say(note)
    mean = parent.state.mean
    stds: dict[float, Arrays] = {
        std: {"mean": mean, "std": np.full(mean.shape, std, np.float32)} for std in request.std
    }
    evaluate(ranks, parent, draw(ranks, parent, "measure"), stds, request.out, say)
    if ranks.is_root:
        rows = f"offspring of {named or 'the policy'} at each of {len(stds)} stds"
        say(f"{request.out}: {request.count} {rows}")


def _offspring(request: MeasureRequest, config: Config) -> Config:
    """Return the config of the offspring: a population that logs the standard deviation of each row."""
    population = loaded(DIAGONAL)(
        size=request.count,
        std=min(request.std),
        antithetic=False,
        std_floor=min(request.std),
        std_ceiling=max(request.std),
    )
    run = msgspec.structs.replace(config.run, generations=len(request.std), needs_start=False)
    return replace(config, population=population, run=run)


def _check(request: MeasureRequest) -> None:
    """Raise a ConfigError if the numbers of a request cannot be used."""
    if not request.std or not all(SMALLEST <= std <= 1 / SMALLEST for std in request.std):
        raise ConfigError(f"--std: expected numbers above 0 with commas between them, got {list(request.std)}")
    if len(set(request.std)) < len(request.std):
        raise ConfigError(f"--std: expected different numbers, got {list(request.std)}")
