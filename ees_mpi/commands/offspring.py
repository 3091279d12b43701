"""`ees-mpi sample`: new offspring of a trained mean. `ees-mpi measure`: how evolvable any policy is.

Both write a study: `sample` at one standard deviation, `measure` at several.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from ees_mpi.commands.arguments import SMALLEST
from ees_mpi.commands.study import Source, check_target, draw, evaluate, read_parent
from ees_mpi.config import Config, Evolution
from ees_mpi.contracts import Say
from ees_mpi.errors import ConfigError
from ees_mpi.outcomes import Arrays
from ees_mpi.populations.diagonal import Diagonal
from ees_mpi.ranks import Ranks
from ees_mpi.registry.toml import Setting, key_of, shown
from ees_mpi.runs.policy_files import PolicySource

ENGINE_KEYS = ("task.engine", "task.device")


@dataclass(frozen=True)
class SampleRequest:
    """The options of `ees-mpi sample`."""

    run: Path
    count: int
    generation: int | None = None
    std: float | None = None
    component: int | None = None
    settings: Sequence[Setting] = ()  # changes of the engine and the device
    out: Path | None = None  # None: RUN-sample.h5
    overwrite: bool = False


def sample(ranks: Ranks, request: SampleRequest, say: Say) -> Path:
    """Evaluate new offspring, and write a run file of one generation; return its path."""
    out = request.out or request.run.with_name(f"{request.run.stem}-sample.h5")
    check_target(ranks, request.run, out, request.overwrite)
    source = source_of(ranks, request.run, request.generation, request.settings)
    parent = read_parent(ranks, source, lambda config: offspring(config, request.count, request.std))
    drawn, noise = draw(ranks, parent, "sample", parent.about["generation"])
    with ranks.together():
        if request.component is not None:
            if request.component >= len(parent.state.mean):
                raise ConfigError(f"component {request.component}: expected 0 to {len(parent.state.mean) - 1}")
            drawn = replace(drawn, parent=np.full(request.count, request.component, np.int32))
    evaluate(ranks, parent, (drawn, noise), {parent.std: parent.state.learned}, out, say)
    if ranks.is_root:
        say(f"{out}: {request.count} offspring of generation {parent.about['generation']} of {request.run}")
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
    method = config.method.of_offspring if isinstance(config.method, Evolution) else config.method
    return replace(config, population=config.population.offspring(count, std), run=run, method=method)


@dataclass(frozen=True)
class MeasureRequest:
    """The options of `ees-mpi measure`."""

    policy: PolicySource
    std: tuple[float, ...]
    task: str | None = None  # a preset or a config file; None: the config of a run or of an exported policy
    count: int = 1000
    settings: Sequence[Setting] = ()
    label: str = ""
    out: Path = Path("measure.h5")
    overwrite: bool = False


def measure(ranks: Ranks, request: MeasureRequest, say: Say) -> None:
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
    population = Diagonal(
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
