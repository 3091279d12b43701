"""`ees-mpi sample`: new offspring of a trained mean."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from ees_mpi.commands.study import Source, check_target, draw, evaluate, read_parent
from ees_mpi.config import Config
from ees_mpi.contracts import Say
from ees_mpi.errors import ConfigError
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
                raise ConfigError(f"--component {request.component}: expected 0 to {len(parent.state.mean) - 1}")
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
    return replace(config, population=config.population.offspring(count, std), run=run)
