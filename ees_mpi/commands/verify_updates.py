"""`ees-mpi verify --updates`: every update is computed again from the logged outcomes, and every state is compared."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ees_mpi.commands.verify import cause
from ees_mpi.config import Evolution
from ees_mpi.errors import ConfigError, RunFileError, VerifyError
from ees_mpi.generation.state import State
from ees_mpi.outcomes import Arrays, Outcomes
from ees_mpi.ranks import Ranks
from ees_mpi.store.reader import Run, open_run
from ees_mpi.strategy import Update


class UpdatesCheck(NamedTuple):
    """The updates that were computed again; `whole`: whole states were compared, not the means alone."""

    updates: int
    whole: bool


def verify_updates(ranks: Ranks, path: Path) -> UpdatesCheck:
    """Compute all updates of a run again, shared by the ranks; raise a VerifyError at the first one that differs."""
    with ranks.together():
        run = open_run(path)
        if ranks.first:
            run.check_all()
        if not isinstance(run.config.method, Evolution):
            name = run.config.method.name
            raise ConfigError(f"--updates: an update of {name} needs rollouts that files do not keep; leave it out")
        if run.attributes.get("kind") != "run" or run.generations == 0:
            raise RunFileError(f"{path} holds no update to compute again")
    ranks.set_stall_limit(60 * run.config.run.stall_minutes)
    update = Update.open(run.config, ranks)
    with ranks.together():
        run.check_noise(update.noise)
    updates = min(run.generations, int(ranks.gather(np.array([run.generations]), [1] * ranks.size).min()))
    state = State(
        0, run.learned(0), run.config.method.moments(run.config.task, run.learned(0)), run.observation_sums(0)
    )
    for generation in range(updates):
        state = _advance(run, update, state, ranks)
        with ranks.together():
            _compare(run, generation, state)
    whole = run.has_observation_sums
    run.close()
    return UpdatesCheck(updates, whole)


def _advance(run: Run, update: Update, state: State, ranks: Ranks) -> State:
    """Return the state after a generation, computed from its logged outcomes."""
    g = state.generation
    with np.errstate(over="ignore", invalid="ignore"):  # numbers of a damaged file: the states will differ
        following, _ = update.tell(state, run.draw(g), logged_outcomes(run, g), ranks)
    return replace(following, observations=run.observation_sums(g + 1))


def logged_outcomes(run: Run, generation: int) -> Outcomes:
    """Return the logged outcomes of a generation, without observations."""
    behavior, fitness, length, valid = (run[name][generation] for name in ("behavior", "fitness", "length", "valid"))
    valid = valid.astype(bool)
    if not (np.isfinite(behavior[valid]).all() and np.isfinite(fitness[valid]).all()):
        raise RunFileError(f"{run.path}: generation {generation} has valid rollouts with numbers that are not finite")
    return Outcomes(behavior, fitness, length.astype(np.int64), valid, np.zeros((0, 1)))


def learned_after(run: Run, generation: int) -> Arrays:
    """Return the learned arrays after the update of a generation."""
    last = generation + 1 == run.generations
    return State.from_arrays(run.state_arrays()).learned if last else run.learned(generation + 1)


def _compare(run: Run, generation: int, state: State) -> None:
    """Raise a VerifyError if the file has another state after a generation."""
    following = learned_after(run, generation)
    same = all(np.array_equal(state.learned[name], following[name]) for name in following)
    if same and run.has_observation_sums:
        same = state.digest().hex() == run["state_sha256"][generation].decode()
    if same:
        return
    message = f"{run.path}: the update of generation {generation} does not follow from its logged outcomes"
    raise VerifyError(f"{message}: {cause(run, generation)}")
