"""Starting from a run: the mean(s) and observation statistics of another run file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ees_mpi.config import Config
from ees_mpi.errors import ConfigError
from ees_mpi.objectives import OBJECTIVES
from ees_mpi.outcomes import Floats, Singles
from ees_mpi.state import State
from ees_mpi.store.reader import Run, open_run
from ees_mpi.streams import stream


@dataclass(frozen=True)
class Origin:
    """Mean(s) of a run at some generation, and what they were normalised with."""

    mean: Singles  # [K, D]
    observations: Floats  # [1 + 2 O]
    generation: int
    std: float
    learned: dict[str, Any]  # by MAML, beside the mean; empty for others
    about: dict[str, Any]


def parse(text: str) -> tuple[Path, int | None]:
    """Split RUN.h5[@generation]."""
    path, at, generation = text.rpartition("@")
    if not at or not generation.isdigit():
        return Path(text), None
    return Path(path), int(generation)


def read(run: Run, generation: int | None) -> Origin:
    """Take the final state, or the means from which a generation was drawn."""
    about: dict[str, Any] = {
        "path": str(run.path.resolve()),
        "run_id": run.run_id,
        "objective": OBJECTIVES.name_of(run.config.objective),
        "method": run.config.method,
    }
    std = float(run.config.population.std)
    if generation is None or generation == run.generations:
        state = State.from_arrays(run.state_arrays())
        about |= {"generation": state.generation, "state_sha256": state.digest().hex()}
        learned = dict(state.moments) if run.config.learns_tasks else {}
        return Origin(state.mean, state.observations, state.generation, std, learned, about)
    if not 0 <= generation < run.generations:
        raise ConfigError(f"generation {generation}: {run.path} has 0 to {run.generations}")
    digest = run["state_sha256"][generation - 1].decode() if generation else ""
    about |= {"generation": generation, "state_sha256": digest}
    learned = {"log_std": run["log_std"][generation]} if run.config.learns_tasks else {}
    return Origin(run["mean"][generation], _sums(run, generation), generation, std, learned, about)


def _sums(run: Run, generation: int) -> Floats:
    """Rebuild the observation sums from the statistics that a generation used."""
    if "observation_mean" not in run.names:
        return np.zeros(1)
    count = run["observation_count"][generation]
    mean, std = run["observation_mean"][generation], run["observation_std"][generation]
    return np.concatenate([[count], count * mean, count * (np.square(std) + np.square(mean))])


def first_state_from(text: str, config: Config) -> tuple[State, str]:
    """Return the state with which a run starts from another, and a JSON note of where it came from.

    A mixture that starts from a single mean draws its means from that run's population: the paper's splitting.
    """
    path, generation = parse(text)
    with open_run(path) as run:
        origin = read(run, generation)
    wanted = (config.population.components, config.task.parameters)
    observations = 1 + 2 * config.task.observation_dim
    if origin.mean.shape[1] != wanted[1] or len(origin.observations) != observations:
        raise ConfigError(
            f"--from {text}: its individuals have {origin.mean.shape[1]} parameters and "
            f"{len(origin.observations) // 2} observations; this config's have {wanted[1]} and {observations // 2}: "
            "another network or another task"
        )
    mean = origin.mean
    if len(mean) != wanted[0]:
        if len(mean) != 1:
            raise ConfigError(
                f"--from {text}: it has {len(mean)} means, this config has {wanted[0]}; expected 1 or as many"
            )
        generator = stream(config.run.seed, "split")
        mean = mean + np.float32(origin.std) * generator.standard_normal(wanted, np.float32)
    moments = (config.learns_tasks and origin.learned) or config.moments(mean)
    state = State(0, mean, moments, origin.observations)
    return state, json.dumps(origin.about)
