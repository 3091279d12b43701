"""The loop that everything trains with: ask, evaluate, tell, seal, deliver.

`docs/internals.md` names all functions that a generation passes through.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ees_mpi import metrics
from ees_mpi.arrays import Arrays, readonly
from ees_mpi.errors import EesError, Interrupted, TaskError, collective, located
from ees_mpi.generation import Draw, Found, Outcomes, Record, State, Unfinished, Work, flat_learned, invalid_rollouts
from ees_mpi.ranks import Ranks
from ees_mpi.run.evaluators import Evaluator

if TYPE_CHECKING:  # it imports h5py, and only rank 0 has a file
    from ees_mpi.store.writer import Writer

Sink = Callable[[Record, State], object]  # on rank 0: the run file first, then those who watch


class Method(Protocol):
    """How a run learns: an evolution strategy, or MAML. All functions are pure, and the same on every rank."""

    @property
    def settings(self) -> metrics.Settings: ...  # of the logged metrics

    def ask(self, state: State) -> Work:
        """Return what the next generation evaluates."""

    def work(self, state: State, draw: Draw) -> Work:
        """Return the work of a generation whose draw is known, such as a stored one."""

    def tell(self, work: Work, found: Found, ranks: Ranks) -> tuple[State, Arrays]:
        """Return the next state, and arrays for the record; called on all ranks together."""


def loop(method: Method, evaluator: Evaluator, state: State, until: int, sinks: Sequence[Sink], ranks: Ranks) -> State:
    """Advance the state to a generation; each one before it is committed by the first sink, or it never happened."""
    committed = 0.0  # seconds of the commit before
    while state.generation < until:
        with located(f"generation {state.generation}"):
            work = method.ask(state)
            found = evaluated(evaluator, work, ranks)
            start = time.perf_counter()
            following, logged = method.tell(work, found, ranks)
            arrays = {**arrays_of(work, found), **metrics.logged(found.outcomes, method.settings, ranks), **logged}
            seconds = {**found.seconds, "update": time.perf_counter() - start, "commit": committed}
        record = seal(work, following, arrays, seconds, ranks, method.settings.own_names)
        committed = deliver(record, following, sinks, ranks)
        state = following
        stop_if_asked(state, until, ranks)
    return state


def evaluated(evaluator: Evaluator, work: Work, ranks: Ranks) -> Found:
    """Evaluate a generation; raise on every rank if it was stopped, or if too little of it is valid."""
    try:
        found = evaluator.evaluate(work)
    except Unfinished:
        raise interrupted(work.state, ranks) from None
    check_enough(found.outcomes, work.state.generation)
    return found


def check_enough(outcomes: Outcomes, generation: int, saved: bool = True) -> None:
    """Raise on every rank if most rollouts of a generation are invalid; `saved`: there is a run file."""
    if 2 * outcomes.size < len(outcomes.valid) or outcomes.size < 2:
        said = invalid_rollouts(generation, outcomes.behavior, outcomes.fitness, outcomes.valid)
        earlier = f". The {generation} generations before it are saved" if saved and generation else ""
        raise collective(TaskError(f"{said}. No update can be made of the rest{earlier}"))


def arrays_of(work: Work, found: Found) -> Arrays:
    """Return the arrays of a generation: what it was drawn from, and what was found."""
    state, outcomes, means = work.state, found.outcomes, found.means
    arrays = {
        **state.learned,  # first: an array of the user's own population must not replace another one
        "learned": flat_learned(state.learned),
        "behavior": outcomes.behavior,
        "fitness": outcomes.fitness,
        "length": outcomes.length,
        "valid": outcomes.valid,
        "errors": np.array(len(outcomes.raised)),
        "offset": work.draw.offset,
        "sign": work.draw.sign,
        "parent": work.draw.parent,
        "observation_sums": state.observations,
        "observation_count": state.observations[0],
        "observation_mean": work.statistics[0],
        "observation_std": work.statistics[1],
        "behavior_of_mean": np.full(outcomes.behavior.shape[1], np.nan),
        "fitness_of_mean": np.array(np.nan),
    }
    if len(means.fitness):
        arrays |= {"behavior_of_mean": means.behavior[0], "fitness_of_mean": means.fitness[0]}
    if work.draw.std is not None:
        arrays["mutation_std"] = np.array(work.draw.std)
    return arrays if outcomes.by_start is None else {**arrays, "behavior_by_start": outcomes.by_start}


def seal(
    work: Work,
    following: State,
    arrays: Arrays,
    seconds: Mapping[str, float],
    ranks: Ranks,
    own_names: Sequence[str] = (),
) -> Record:
    """Return the record of a generation, after all ranks have found that they hold the same next state.

    arrays: everything that is logged, except the digest and the times; seconds: of this rank, by phase
    own_names: of the values of the user's objectives
    """
    digest, generation = following.digest(), work.state.generation
    ranks.check_same(digest, f"the state after generation {generation}")
    if not all(np.isfinite(array).all() for array in following.learned.values()):
        cause = "optimizer.lr may be too large, or population.std too small"
        said = f"the update of generation {generation} is not finite, and was not committed"
        raise collective(TaskError(f"{said}; {cause}"))
    evaluate = ranks.each(seconds["evaluate"])
    sealed = {
        **arrays,
        "state_sha256": np.array(digest.hex(), "S64"),
        **{f"seconds_{phase}": np.array(taken) for phase, taken in seconds.items()},
        "seconds_evaluate_min": evaluate.min(),
        "seconds_evaluate_mean": evaluate.mean(),
        "seconds_evaluate_max": evaluate.max(),
        "slowest_rank": np.array(evaluate.argmax()),
        "seconds_clock": np.array(time.time()),
    }
    return Record(generation, readonly(sealed), tuple(own_names))


def deliver(record: Record, following: State, sinks: Sequence[Sink], ranks: Ranks) -> float:
    """Give a generation to the sinks of rank 0, in order; an error of one of them is raised on all ranks.

    Return the seconds of the first sink, which commits.
    """
    start, seconds = time.perf_counter(), [0.0]
    with ranks.together():
        for sink in sinks:
            sink(record, following)
            seconds.append(time.perf_counter() - start)
    return seconds[:2][-1]


def stop_if_asked(state: State, until: int, ranks: Ranks) -> None:
    """Raise an Interrupted on every rank if one of them was asked to stop before the last generation."""
    if ranks.any(ranks.stopping()) and state.generation < until:
        raise interrupted(state, ranks)


def interrupted(state: State, ranks: Ranks) -> EesError:
    """Return the error of a run that was asked to stop."""
    by = ranks.stopped_by or "another rank's signal"
    return collective(Interrupted(f"interrupted by {by}; {state.generation} generations are saved"))


def committing(writer: "Writer") -> Sink:
    """Return the sink that commits generations to a run file."""
    return lambda record, following: writer.append(record.arrays, following.arrays())


class UserSink:
    """Calls a function of the user after each commit. If it raises, the run stops, and can be resumed."""

    def __init__(self, function: Callable[[Record], object]):
        self._function = function
        self.error: BaseException | None = None  # of the function: it is raised when all ranks have left

    def __call__(self, record: Record, following: State) -> None:
        try:
            self._function(record)
        except BaseException as error:
            self.error, saved = error, f"{following.generation} generations are saved"
            error.add_note(f"on_generation raised this; {saved}")
            raise Interrupted(f"on_generation raised {type(error).__name__} on rank 0: {error}; {saved}") from error
