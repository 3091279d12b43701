"""`ees_mpi.Strategy`: the algorithm for a loop that the user writes. `docs/ask_tell.md` explains it.

`ask` hands out the individuals of this rank, `tell` takes their behaviours and makes the update of `update.py`. Under
mpirun all ranks make the same calls. With `record`, every generation is committed to an ordinary run file.
"""

import atexit
import hashlib
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import threadpoolctl
from numpy.typing import ArrayLike, NDArray

from ees_mpi import config as configs
from ees_mpi import machine
from ees_mpi.config import Config, Evolution
from ees_mpi.errors import ConfigError, TaskError, located
from ees_mpi.generation.results import Clock, Record, check_enough, describe, gather_sums, observed, uses_torch
from ees_mpi.generation.rollouts import mean_behavior, start_seeds
from ees_mpi.generation.state import State, state_of
from ees_mpi.outcomes import LEADING, Arrays, Draw, Floats, Outcomes, Singles, behavior_columns, doubles, unpack
from ees_mpi.ranks import Ranks, UserLoop
from ees_mpi.registry.computing import computing
from ees_mpi.runs.broadcast import read_on_root
from ees_mpi.runs.loop_config import config_of
from ees_mpi.runs.recording import NO_END, Recording, reopen_loop
from ees_mpi.training import commit
from ees_mpi.update import Update

LARGEST = 1 << 30  # bytes of the individuals that are in memory at a time


class Strategy:
    """An evolution strategy for your own loop: `z = es.ask()`, then `es.tell(behavior)`.

    mean: the first mean [D]; of a mixture, its means [K, D]
    objective, population, optimizer: a name, a dict of settings, a settings object, or your own: a function for the
        objective, a class for the others
    size, std: N and the standard deviation of the population; seed: of the run
    config: a preset, a .toml file, a dict or a Config, for all that is not given here; its task is not used
    observation_dim, observation_share: O, and the share of individuals that feed the observation normaliser
        [default: 0.01, or more for about ten individuals]
    rollouts, starts: K starts of each individual, and which of them share their seeds: "own", "common" or "fixed"
    record: a run file to write; overwrite: replace an existing one; generations: how many are planned, for `info`
    """

    config: Config
    metrics: dict[str, float]  # the numbers of the last generation: entropy, fitness_mean, gradient_norm and others
    sampled: NDArray[np.bool_]  # [n] which of the rows that `ask` returned last feed the observation normaliser

    def __init__(
        self,
        mean: ArrayLike,
        objective: Any = None,
        *,
        size: int | None = None,
        std: float | None = None,
        seed: int | None = None,
        population: Any = None,
        optimizer: Any = None,
        config: Any = None,
        observation_dim: int = 0,
        observation_share: float | None = None,
        rollouts: int = 1,
        starts: str = "fixed",
        record: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
        generations: int | None = None,
    ):
        parts = {"population": population, "objective": objective, "optimizer": optimizer}
        planned = NO_END if generations is None and config is None else generations
        keys = {"population.size": size, "population.std": std, "run.seed": seed, "run.generations": planned}
        target = None if record is None else Path(record)
        with computing(False):
            loop = UserLoop("Strategy")
            with loop.ranks.together():
                means = means_of(mean)
                task: dict[str, Any] = {"observation_dim": observation_dim, "observation_share": observation_share}
                task |= {"parameters": means.shape[1], "rollouts": rollouts, "starts": starts}
                loop_config = config_of(config, task, parts, keys)
                if means.shape != (expected := (loop_config.population.components, means.shape[1])):
                    raise ConfigError(f"mean: expected the shape {expected} for this population, got {means.shape}")
                configs.check(loop_config)
                if isinstance(loop_config.method, Evolution):
                    loop_config.method.check_means(loop_config.population)
                state = state_of(loop_config, means, np.zeros(1 + 2 * loop_config.task.observation_dim))
                here = target if loop.ranks.is_root else None
                recording = Recording.new(here, state, overwrite) if here else Recording()
            self._begin(loop, loop_config, state, recording, target is not None)
        self._pin_threads()

    @classmethod
    def resume(
        cls, path: str | os.PathLike[str], *, generations: int | None = None, trust: bool = False, force: bool = False
    ) -> "Strategy":
        """Continue a recorded loop after its last committed generation.

        generations: how many are planned now; trust: run the code that the file names, such as its objective
        force: ignore the lock of another writer if the file system has no locks
        """
        self = cls.__new__(cls)
        with computing(trust):
            loop, recording = UserLoop("Strategy.resume"), Recording()

            def read() -> dict[str, Any]:
                prepared = reopen_loop(Path(path), generations, force)
                recording.writer = prepared.open()
                return {"config": prepared.config, "state": prepared.state}

            config, received = read_on_root(loop.ranks, read)
            self._begin(loop, config, State.from_arrays(received["state"]), recording, True)
            self._open_file(loop.ranks)
        self._pin_threads()
        return self

    def _begin(self, loop: UserLoop, config: Config, state: State, recording: Recording, recorded: bool) -> None:
        """Check that all ranks begin alike, and fill the noise table."""
        ranks = loop.ranks
        ranks.check_same(state.digest(), "the first mean (draw it with a fixed seed)")
        ranks.check_same(hashlib.sha256(config.to_toml().encode()).digest(), "a setting of Strategy")
        ranks.check_alike(machine.fingerprint(uses_torch(config)))
        self._update = Update.open(config, ranks)
        self._loop, self.config, self._state = loop, config, state
        self._recording, self._recorded = recording, recorded  # recorded: there is a file, on rank 0
        self._draw: Draw | None = None
        self._asked: list[range] = []
        self._rows_given = range(0)
        self._chunked = self._ready = False  # ready: B is known, and the file is open
        self._clock, self._commit_seconds = Clock(), 0.0
        self.metrics, self.sampled = {}, np.zeros(0, np.bool_)
        if ranks.size > 1 or recorded:
            atexit.register(self.close)

    def _open_file(self, ranks: Ranks) -> None:
        """Open the file on rank 0, if there is one, and note the session in it; called on all ranks together."""
        self._recording.begin(self.config, self._state, ranks)
        self._ready = True

    def _pin_threads(self) -> None:
        """Give BLAS one thread until `close`: sums over several threads have other bits."""
        pools = threadpoolctl.ThreadpoolController()
        # Several ranks share the cores of a node, so there all libraries have one thread.
        self._threads = (pools.select(user_api="blas") if self._loop.ranks.size == 1 else pools).limit(limits=1)

    @property
    def state(self) -> State:
        """Everything that the next generation depends on; `np.savez(file, **es.state.arrays())` saves it.

        Set it to such a state, or to the arrays of `np.load(file)`, on all ranks to continue from there.
        """
        return self._state

    @state.setter
    def state(self, state: State | Arrays) -> None:
        if self._recorded:
            raise ConfigError("state: a recorded run has a fixed history; Strategy.resume continues it")
        given = state.arrays() if isinstance(state, State) else state
        named = {name: np.asarray(array) for name, array in given.items()}
        population = self.config.population
        rows = (population.components,) if population.has_means else ()  # after one step each mean has its own moments
        mine, other = (
            {
                name: (array.shape or rows * name.startswith("moments/"), str(array.dtype))
                for name, array in arrays.items()
                if not name.startswith("memory/")
            }
            for arrays in (self._state.arrays(), named)
        )
        if mine != other:
            wrong = min(name for name in mine.keys() | other.keys() if mine.get(name) != other.get(name))
            raise ConfigError(f"state: {wrong}: expected {mine.get(wrong)}, got {other.get(wrong)}")
        self._state, self._draw = State.from_arrays(named), None

    @property
    def mean(self) -> Singles:
        """The present mean [D], read-only; of a mixture, its means [K, D]. Set it on all ranks to move it."""
        view = (self._state.mean[0] if len(self._state.mean) == 1 else self._state.mean).view()
        view.flags.writeable = False
        return view

    @mean.setter
    def mean(self, mean: ArrayLike) -> None:
        self.state = replace(self._state, learned={**self._state.learned, "mean": means_of(mean)})

    @property
    def normaliser(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation [O] of the observations so far; 0 and 1 before the first ones."""
        return self._state.observation_mean_std()

    @property
    def rank(self) -> int:
        """The number of this rank, for work that one rank does, such as printing; without mpirun 0."""
        return self._loop.ranks.rank

    def ask(self, chunk: int | None = None) -> Any:
        """Return the individuals of this rank [n, D]; with `chunk`, an iterator over parts [m, D] of them.

        chunk: m at most. The parts are then the same for any number of ranks.
        """
        self._loop.check_open()
        size, parameters = self.config.population.size, self._state.mean.shape[1]
        if self._draw is None:
            self._draw, self._clock = self._update.ask(self._state), Clock()
        if chunk is not None and (not hasattr(chunk, "__index__") or chunk is True or chunk < 1):
            raise ConfigError(f"chunk: expected a whole number of at least 1, got {chunk!r:.80}")
        shares = self._loop.ranks.shares(size if chunk is None else -(-size // chunk))
        rows = max(map(len, shares)) if chunk is None else min(chunk, size)
        if (need := 4 * rows * parameters) > LARGEST:
            raise ConfigError(
                f"ask: {rows} individuals of {parameters} parameters need {need / 2**30:.3g} GiB; expected at most "
                "1 GiB: `es.tell([simulate(part) for part in es.ask(chunk="
                f"{max(1, min(64, LARGEST // (4 * parameters)))})])`"
            )
        mine, self._chunked = shares[self._loop.ranks.rank], chunk is not None
        self._asked = [mine] if chunk is None else [range(k * chunk, min((k + 1) * chunk, size)) for k in mine]
        sampled = observed(self.config, self._state.generation)
        self.sampled, parts = sampled[:0], self._parts(self._draw, sampled)
        return parts if self._chunked else next(parts)

    def _parts(self, draw: Draw, sampled: NDArray[np.bool_]) -> Iterator[Singles]:
        population, learned, noise = self.config.population, self._state.learned, self._update.noise
        for part in self._asked:
            rows = np.empty((len(part), self._state.mean.shape[1]), np.float32)
            for row, index in zip(rows, part, strict=True):
                row[:] = population.individual(learned, draw, index, noise)
            self.sampled, self._rows_given = sampled[part.start : part.stop], part
            yield rows

    @property
    def seeds(self) -> NDArray[np.int64]:
        """The seeds [n, K] of the rollouts of the rows that `ask` returned last; see `rollouts` and `starts`."""
        rows = [start_seeds(self.config, self._state.generation, index) for index in self._rows_given]
        return np.array(rows, np.int64).reshape(len(rows), self.config.task.rollouts)

    def tell(self, behavior: Any = None, fitness: Any = None, *, valid: Any = None, observations: Any = None) -> None:
        """Make the update from the results of the individuals that `ask` returned last; all ranks call this.

        behavior [n, B], fitness [n], valid [n]: arrays, or after `ask(chunk)` lists with an array for each part; with
            several starts, the behavior is [n, K, B]; for standard ES tell(fitness=...) is enough
        observations: of each individual that is `sampled`, in order, an array [T, O]
        """

        def job(ranks: Ranks) -> None:
            with ranks.together():
                if self._draw is None:
                    raise TaskError("tell: expected a call of ask before it")
                draw, (rows, sums) = self._draw, self._rows(behavior, fitness, valid, observations)
            self._clock.lap("evaluate")
            rows, task = self._prepare(rows, ranks), self.config.task
            gathered = ranks.allgather_by_index(rows[:, 0].astype(np.int64), rows, self.config.population.size)
            sums = gather_sums(sums, ranks) if task.observation_dim else sums
            outcomes = unpack(gathered, sums[:, 1:], task.rollouts, task.common_starts)
            check_enough(outcomes, self._state.generation, saved=self._recorded)
            self._clock.lap("gather")
            self._advance(draw, outcomes, ranks)

        self._loop.call(job, 60 * self.config.run.stall_minutes)

    def _rows(self, behavior: Any, fitness: Any, valid: Any, observations: Any) -> tuple[Floats, Floats]:
        """Return the checked outcomes of this rank as rows, which can be gathered, and its observation sums.

        The rows are those of `outcomes.pack`. B may not be known yet; then `task.behavior_dim` is 0.
        """
        task, index = self.config.task, [individual for part in self._asked for individual in part]
        if fitness is None and self._update.objective.uses_fitness:
            raise TaskError("tell: the objective needs a fitness for each row; expected tell(behavior, fitness)")
        if behavior is None and self.config.method.algorithm == "fitness":
            behavior = fitness
        count, starts, dim = len(index), task.rollouts, task.behavior_dim
        parts = len(self._asked) if self._chunked else None
        behavior = _joined(behavior, parts)
        leading, given = (count, starts) if starts > 1 else (count,), behavior.shape
        if count == behavior.size == 0:  # more ranks than individuals
            behavior = np.zeros((*leading, dim))
        if behavior.ndim == len(leading) and dim < 2:
            behavior = behavior[..., None]
        if behavior.shape[:-1] != leading or (dim and behavior.shape[-1] != dim):
            wanted = ", ".join(map(str, (*leading, dim or "B")))
            raise TaskError(f"tell: expected a behaviour of shape ({wanted}), got {given}")
        if starts > 1:
            each = behavior.reshape(count, starts * behavior.shape[-1])
            behavior = np.hstack([mean_behavior(np.ascontiguousarray(behavior)), each])
        rows = np.zeros((count, LEADING + behavior.shape[1]))
        rows[:, 0] = index
        rows[:, 1] = True if valid is None else _vector("valid", valid, parts, count) != 0
        rows[:, 2] = 1
        rows[:, 3] = 0.0 if fitness is None else _vector("fitness", fitness, parts, count)
        rows[:, LEADING:] = behavior
        if not task.observation_dim:
            return rows, np.zeros((0, 2))
        sampled = observed(self.config, self._state.generation)[index]
        return rows, sums_of(rows, sampled, observations, task.observation_dim)

    def _prepare(self, rows: Floats, ranks: Ranks) -> Floats:
        """Learn B from the first outcomes, and open the file; return the rows with B columns for the behaviour."""
        starts = self.config.task.rollouts
        if not self._ready:
            dim = (rows.shape[1] - LEADING) // behavior_columns(1, starts) if len(rows) else 0
            dims = set(ranks.allgather(np.array([dim]), counts=[1] * ranks.size).tolist()) - {0}
            with ranks.together():
                if len(dims) != 1:
                    raise TaskError(f"tell: expected behaviours with the same number of components, got {sorted(dims)}")
                task = msgspec.structs.replace(self.config.task, behavior_dim=dims.pop())
                self.config = replace(self.config, task=task)
                self.config.method.try_out(task, self.config.population)
            self._open_file(ranks)
        return rows.reshape(len(rows), LEADING + behavior_columns(self.config.task.behavior_dim, starts))

    def _advance(self, draw: Draw, outcomes: Outcomes, ranks: Ranks) -> None:
        """Make the update and commit the generation."""
        state = self._state
        with located(f"generation {state.generation}"):
            following, logged = self._update.tell(state, draw, outcomes, ranks)
        nothing = {"mean_behavior": np.full(self.config.task.behavior_dim, np.nan), "mean_fitness": np.array(np.nan)}
        arrays = {**describe(self.config, state, draw, outcomes, ranks), **nothing, **logged}
        self._clock.lap("update")
        names = self.config.method.own_values
        record = Record(state.generation, arrays, self._clock.seconds, own_values=names)
        record, self._commit_seconds = commit(ranks, self._recording.writer, record, following, self._commit_seconds)
        self._state, self._draw, self.metrics = following, None, record.metrics

    def close(self, finished: bool | None = None) -> None:
        """Close the run file and leave the loop; called on all ranks, and at the end of the program.

        finished: whether the file says that the run is complete  [default: no exception ends the program]
        """
        atexit.unregister(self.close)
        if finished is None:
            finished = getattr(sys, "last_value", None) is None
        try:
            self._recording.close(self.config, self._state.generation, finished)
        finally:
            self._loop.close()
            self._threads.restore_original_limits()

    def __enter__(self) -> "Strategy":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or self._loop.ranks.size == 1:  # otherwise the other ranks may be far from their next call
            self.close(finished=error is None)


def means_of(mean: ArrayLike) -> Singles:
    """Return the first mean(s) as [K, D]."""
    try:
        means = np.array(np.asarray(mean, np.float32), ndmin=2)  # a copy
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"mean: expected [D] or [K, D] finite numbers: {error}") from None
    if means.ndim != 2 or means.size == 0 or not np.isfinite(means).all():
        raise ConfigError(f"mean: expected [D] or [K, D] finite numbers, got an array of shape {np.shape(mean)}")
    return means


def _joined(values: Any, parts: int | None) -> NDArray[Any]:
    """Return an array of doubles; a list of the arrays of all parts becomes one array."""
    try:
        if parts is not None and isinstance(values, (list, tuple)) and len(values) == parts:
            values = np.concatenate([doubles(part) for part in values]) if parts else np.zeros((0, 0))
        return doubles(values)
    except (TypeError, ValueError, RuntimeError) as error:  # the last one: of a torch tensor with a gradient
        raise TaskError(f"tell: expected arrays of numbers that fit together: {error}") from None


def _vector(name: str, values: Any, parts: int | None, count: int) -> NDArray[Any]:
    vector = _joined(values, parts)
    if vector.shape != (count,) and vector.size:
        raise TaskError(f"tell: expected {name} of shape ({count},), got {vector.shape}")
    return vector.ravel()


def sums_of(rows: Floats, sampled: NDArray[np.bool_], observations: Any, dim: int) -> Floats:
    """Return the observation sums of the sampled individuals, with their index in front: [sampled, 2 + 2 O].

    observations: of each sampled individual, in order, [T, O]
    """
    seen = [] if observations is None else list(observations)
    if len(seen) != sampled.sum():
        raise TaskError(
            f"tell: expected observations= with one array [T, {dim}] for each of the {sampled.sum()} sampled "
            f"individuals (es.sampled), got {len(seen)}"
        )
    sums = np.zeros((len(seen), 2 + 2 * dim))
    for row, index, rollout in zip(sums, rows[sampled, 0], seen, strict=True):
        values = np.asarray(rollout, np.float64)
        if values.ndim != 2 or values.shape[1] != dim:
            raise TaskError(f"tell: expected observations of shape (T, {dim}), got {values.shape}")
        row[:] = (index, len(values), *values.sum(axis=0), *np.square(values).sum(axis=0))
    kept: Floats = sums[rows[sampled, 1] != 0]
    return kept
