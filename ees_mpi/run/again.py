"""A generation of a run file, to evaluate some of it again."""

from dataclasses import replace

import numpy as np

from ees_mpi.errors import RunFileError
from ees_mpi.generation import Outcomes, State, Work
from ees_mpi.run.arrays import BY_START
from ees_mpi.run.file import Run
from ees_mpi.run.parts import study_work


def stored_work(run: Run, generation: int) -> Work:
    """Return the work of a stored generation, and last the mean."""
    state = State(generation, run.learned(generation), {}, run.observation_sums(generation))
    return study_work(run.config, state, run.observation_statistics(generation), run.draw(generation))


def work_of_mean(run: Run, generation: int, component: int) -> Work:
    """Return work whose unperturbed mean, number N, is one of the means of a generation, or of the last state."""
    if generation == run.generations:
        state = State.from_arrays(run.state_arrays())
        work = study_work(run.config, state, state.statistics, run.draw(-1))  # a draw of any individuals
    else:
        work = stored_work(run, generation)
    mean = {"mean": work.state.mean[component : component + 1]}
    return replace(work, state=replace(work.state, learned={**work.state.learned, **mean}))


def logged_outcomes(run: Run, generation: int) -> Outcomes:
    """Return the logged outcomes of a generation, without observations."""
    behavior, fitness, length, valid = (run[name][generation] for name in ("behavior", "fitness", "length", "valid"))
    valid = valid.astype(bool)
    if not (np.isfinite(behavior[valid]).all() and np.isfinite(fitness[valid]).all()):
        raise RunFileError(f"{run.path}: generation {generation} has valid rollouts with numbers that are not finite")
    by_start = run[BY_START][generation] if BY_START in run.names else None
    shared = run.config.task.common_starts
    return Outcomes(behavior, fitness, length.astype(np.int64), valid, np.zeros((0, 1)), by_start, shared)


def logged_mean(run: Run, generation: int, again: Outcomes) -> Outcomes | None:
    """Return the logged outcome of the first mean of a generation; None if it was not evaluated.

    again: as evaluated again; its length and its behaviours from each start, which are not logged, are taken
    """
    if generation == run.generations or not np.isfinite(run["fitness_of_mean"][generation]):
        return None
    behavior, fitness = run["behavior_of_mean"][generation][None], run["fitness_of_mean"][generation][None]
    return replace(again, behavior=behavior, fitness=fitness, valid=np.ones(1, np.bool_))
