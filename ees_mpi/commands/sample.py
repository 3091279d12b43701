"""`ees-mpi sample`: new offspring of a trained mean."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ees_mpi import config as configs
from ees_mpi import machine
from ees_mpi.commands.study import Row, check_target, evaluated, write
from ees_mpi.config import Config
from ees_mpi.contracts import Say
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.generation.evaluation import Evaluation
from ees_mpi.generation.state import State
from ees_mpi.noise import Noise, NoiseTable, stream
from ees_mpi.outcomes import Arrays, Draw
from ees_mpi.ranks import Ranks
from ees_mpi.registry.toml import Setting, key_of, shown
from ees_mpi.runs import starting_point
from ees_mpi.runs.broadcast import read_on_root
from ees_mpi.store.reader import open_run

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


@dataclass(frozen=True)
class Parent:
    """A trained mean with everything that its offspring need; the same on every rank."""

    config: Config  # of the offspring: their number, their standard deviation, no antithetic pairs
    state: State
    about: dict[str, Any]  # the run and the generation
    inherited: Arrays  # moments that the method hands on


def sample(ranks: Ranks, request: SampleRequest, say: Say) -> Path:
    """Evaluate new offspring, and write a run file of one generation; return its path."""
    out = request.out or request.run.with_name(f"{request.run.stem}-sample.h5")
    check_target(ranks, request.run, out, request.overwrite)
    parent = read_parent(ranks, request, lambda config: offspring(config, request.count, request.std))
    drawn, noise = draw_offspring(ranks, parent, "sample")
    if request.component is not None:
        drawn = replace(drawn, parent=np.full(request.count, request.component, np.int32))
    config, row = parent.config, Row(parent.state, parent.state)
    nothing = {"mean_fitness": np.array(np.nan), "mean_behavior": np.full(config.task.behavior_dim, np.nan)}
    evaluation = Evaluation(config, noise, ranks)
    record, _ = evaluated(evaluation, row, drawn, parent.state.observation_mean_std(), nothing)
    evaluation.close()
    with ranks.together():
        if ranks.first:
            write(evaluation, out, "sample", parent.about, [row], [record])
            say(
                f"{out}: {config.population.size} offspring of generation {parent.about['generation']} of {request.run}"
            )
    return out


def read_parent(ranks: Ranks, request: SampleRequest, change: Callable[[Config], Config]) -> Parent:
    """Read a run on rank 0, and send it to all ranks; `change`: makes the config of the offspring from the run's."""
    ranks.check_alike(machine.fingerprint())
    config, received = read_on_root(ranks, partial(_read, request, change))
    ranks.set_stall_limit(60 * config.run.stall_minutes)
    first = config.population.learned(received["state"]["mean"])
    learned = {name: received["state"].get(name, array) for name, array in first.items()}
    state = State(0, learned, {}, received["state"]["observations"])
    return Parent(config, state, received["about"], received["arrays"])


def draw_offspring(ranks: Ranks, parent: Parent, purpose: str) -> tuple[Draw, NoiseTable]:
    """Draw the offspring of a parent; they depend on its run, its generation and the purpose only."""
    config = parent.config
    noise = NoiseTable(config.noise_seed, config.noise.size, ranks)
    generator = stream(config.run.seed, purpose, parent.about["generation"])
    return config.population.draw(generator, noise, config.task.parameters), noise


def _read(request: SampleRequest, change: Callable[[Config], Config]) -> dict[str, Any]:
    if request.run.suffix == ".npz":
        if request.generation is not None:
            raise ConfigError("--generation: an exported policy has one generation; leave it out")
        start = starting_point.read_policy(request.run)
        config = configs.parse(start.config, source=f"the config in {request.run}")
        steps = int(start.about["training_steps"])
        if config.population.components != len(start.mean):
            raise ConfigError(f"{request.run} is one mean of a mixture; sample its run with --component instead")
    else:
        with open_run(request.run) as run:
            if run.generations == 0 and request.generation is None:
                raise RunFileError(f"{request.run} has no committed generation yet")
            start = starting_point.read(run, request.generation)
            run.check_noise(Noise(run.config.noise_seed, run.config.noise.size))
            config, steps = run.config, starting_point.steps_until(run, start.generation)
    if request.component is not None and not 0 <= request.component < len(start.mean):
        raise ConfigError(f"--component {request.component}: expected 0 to {len(start.mean) - 1}")
    config = change(with_engine(config, request.settings))
    configs.check(config)
    return {
        "config": config,
        "about": {**start.about, "training_steps": steps},
        "state": {"mean": start.mean, "observations": start.observations, **start.learned},
        "arrays": start.inherited,
    }


def offspring(config: Config, count: int, std: float | None) -> Config:
    """Return the config of `count` offspring of a run."""
    return replace(
        config,
        population=config.population.offspring(count, std),
        run=msgspec.structs.replace(config.run, generations=1),
    )


def with_engine(config: Config, settings: Sequence[Setting]) -> Config:
    """Return the config of a run with another engine or device; raise a ConfigError if other keys are to be changed."""
    for setting in settings:
        if key_of(setting) not in ENGINE_KEYS:
            raise ConfigError(f"{shown(setting)}: expected {' or '.join(ENGINE_KEYS)}; all other keys are the run's")
    return configs.parse(config.sections(), settings, "the config of the run") if settings else config
