"""`ees-mpi sample`: new offspring of a trained mean. `ees-mpi measure`: how evolvable any policy is.

Both write a study: `sample` at one standard deviation, `measure` at several.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from ees_mpi.commands.arguments import counted, path_of
from ees_mpi.commands.requests import MeasureRequest, SampleRequest, changes_of, policy_of
from ees_mpi.commands.study import Source, check_target, draw, evaluate, read_parent
from ees_mpi.config import Config, Evolution
from ees_mpi.contracts import Say
from ees_mpi.errors import ConfigError
from ees_mpi.outcomes import Arrays
from ees_mpi.populations.diagonal import Diagonal
from ees_mpi.ranks import Ranks
from ees_mpi.registry import beside
from ees_mpi.registry.toml import Setting, key_of, shown
from ees_mpi.runs.policy_files import PolicySource

ENGINE_KEYS = ("task.engine", "task.device")


def sample(ranks: Ranks, request: SampleRequest, say: Say) -> Path:
    """Evaluate new offspring, and write a run file of one generation; return its path."""
    run = path_of(request.run)
    out = Path(request.out or run.with_name(f"{run.stem}-sample.h5"))
    check_target(ranks, run, out, request.overwrite)
    source = source_of(ranks, run, request.generation, changes_of(request.settings))
    parent = read_parent(ranks, source, lambda config: offspring(config, request.count, request.std))
    drawn, noise = draw(ranks, parent, "sample", parent.about["generation"])
    with ranks.together():
        if request.component is not None:
            component = counted("component", request.component, len(parent.state.mean))
            drawn = replace(drawn, parent=np.full(request.count, component, np.int32))
    evaluate(ranks, parent, (drawn, noise), {parent.std: parent.state.learned}, out, say)
    if ranks.is_root:
        say(f"{out}: {request.count} offspring of generation {parent.about['generation']} of {run}")
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


def measure(ranks: Ranks, request: MeasureRequest, say: Say) -> Path:
    """Evaluate the offspring of a policy, and write a file with a row for each standard deviation; return its path."""
    policy, out = policy_of(request.policy, request), Path(request.out)
    if request.task and request.task.endswith(".toml"):
        beside(request.task)  # on every rank: rank 0 alone reads the file
    named = request.policy if isinstance(request.policy, str) else ""
    check_target(ranks, Path(named), out, request.overwrite)
    with ranks.together():
        stds = _stds(request)
    source = Source(policy, None, request.task, changes_of(request.settings), request.label)
    parent = read_parent(ranks, source, partial(_offspring, request))
    for note in parent.config.notes if ranks.is_root else ():
        say(note)
    mean = parent.state.mean
    rows: dict[float, Arrays] = {std: {"mean": mean, "std": np.full(mean.shape, std, np.float32)} for std in stds}
    evaluate(ranks, parent, draw(ranks, parent, "measure"), rows, out, say)
    if ranks.is_root:
        say(f"{out}: {request.count} offspring of {named or 'the policy'} at each of {len(stds)} stds")
    return out


def _offspring(request: MeasureRequest, config: Config) -> Config:
    """Return the config of the offspring: a population that logs the standard deviation of each row."""
    stds = _stds(request)
    population = Diagonal(
        size=request.count, std=min(stds), antithetic=False, std_floor=min(stds), std_ceiling=max(stds)
    )
    run = msgspec.structs.replace(config.run, generations=len(stds), needs_start=False)
    return replace(config, population=population, run=run)


def _stds(request: MeasureRequest) -> tuple[float, ...]:
    """Return the standard deviations; raise a ConfigError if two are the same."""
    stds = tuple(np.atleast_1d(request.std).tolist())
    if len(set(stds)) < len(stds) or not stds:
        raise ConfigError(f"--std: expected different numbers, got {list(stds)}")
    return stds
