"""The starting point of a run that begins from another run: its mean(s) and observation statistics."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, RunFileError
from ees_mpi.outcomes import Arrays, Floats, Singles
from ees_mpi.state import State, state_of
from ees_mpi.store.reader import Run, open_run
from ees_mpi.streams import stream


@dataclass(frozen=True)
class StartingPoint:
    """The mean(s) of a run at some generation, with the statistics that normalise their observations."""

    mean: Singles  # [K, D]
    observations: Floats  # [1 + 2 O]
    generation: int
    std: float
    inherited: Arrays  # moments that the method passes on
    about: dict[str, Any]  # the run, generation and digest, for the notes in a file


def parse(text: str) -> tuple[Path, int | None]:
    """Split RUN.h5[@generation]."""
    path, at, generation = text.rpartition("@")
    if not at or not (generation.isascii() and generation.isdigit()):
        path, generation = text, ""
    if len(generation) > 18:
        raise ConfigError(f"--from {path}@...: expected the number of a generation after @")
    if os.path.exists(path) and not os.path.isfile(path):
        raise RunFileError(f"--from {path}: this is not a plain file; expected a run file")
    return Path(path), int(generation) if generation else None


def read(run: Run, generation: int | None) -> StartingPoint:
    """Return the starting point after the last generation of a run, or before another generation."""
    method, std = run.config.method, run.config.population.std
    about: dict[str, Any] = {
        "path": str(run.path.resolve()),
        "run_id": run.run_id,
        "objective": method.algorithm,
        "method": method.name,
    }
    if generation is None or generation == run.generations:
        state = State.from_arrays(run.state_arrays())
        about |= {"generation": state.generation, "state_sha256": state.digest().hex()}
        inherited = {name: state.moments[name] for name in method.inherited if name in state.moments}
        return StartingPoint(state.mean, state.observations, state.generation, std, inherited, about)
    if not 0 <= generation < run.generations:
        raise ConfigError(f"generation {generation}: {run.path} has 0 to {run.generations}")
    digest = run["state_sha256"][generation - 1].decode() if generation else ""
    about |= {"generation": generation, "state_sha256": digest}
    inherited = {name: run[name][generation] for name in method.inherited if name in run.names}
    return StartingPoint(run["mean"][generation], _sums(run, generation), generation, std, inherited, about)


def _sums(run: Run, generation: int) -> Floats:
    """Compute the observation sums from the statistics that a generation used."""
    if "observation_mean" not in run.names:
        return np.zeros(1)
    count = run["observation_count"][generation]
    mean, std = run["observation_mean"][generation], run["observation_std"][generation]
    return np.concatenate([[count], count * mean, count * (np.square(std) + np.square(mean))])


def first_state_from(text: str, config: Config) -> tuple[State, str]:
    """Return the first state of a run that starts from another, and a JSON note about its starting point.

    A mixture that starts from a single mean draws its means from the population of that run, as in the paper.
    """
    path, generation = parse(text)
    with open_run(path) as run:
        start = read(run, generation)
    wanted = (config.population.components, config.task.parameters)
    observations = 1 + 2 * config.task.observation_dim
    if start.mean.shape[1] != wanted[1] or len(start.observations) != observations:
        raise ConfigError(
            f"--from {text}: its individuals have {start.mean.shape[1]} parameters and "
            f"{len(start.observations) // 2} observations; this config's have {wanted[1]} and {observations // 2}: "
            "another network or another task"
        )
    mean = start.mean
    if len(mean) != wanted[0]:
        if len(mean) != 1:
            raise ConfigError(
                f"--from {text}: it has {len(mean)} means, this config has {wanted[0]}; expected 1 or as many"
            )
        generator = stream(config.run.seed, "split")
        mean = mean + np.float32(start.std) * generator.standard_normal(wanted, np.float32)
    state = state_of(config, mean, start.observations)
    inherited = {name: start.inherited[name] for name in config.method.inherited if name in start.inherited}
    return State(0, state.learned, {**state.moments, **inherited}, state.observations), json.dumps(start.about)
