"""`ees_mpi.Strategy`: the algorithm for a loop that the user writes. `docs/ask_tell.md` explains it.

`ask` hands out the individuals of this rank, `tell` takes their behaviours and makes the update of the loop. Under
mpirun all ranks make the same calls. With `record`, every generation is committed to an ordinary run file.
"""

import atexit
import operator
import os
import sys
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import threadpoolctl
from numpy.typing import ArrayLike, NDArray

from ees_mpi import config as configs
from ees_mpi import machine, metrics
from ees_mpi.arrays import Arrays, Floats, Singles
from ees_mpi.config import Config
from ees_mpi.errors import ConfigError, TaskError, located
from ees_mpi.generation import LEADING, OWN, Found, Outcomes, Record, State, Work, behavior_columns, gather, gather_sums
from ees_mpi.ranks import Ranks, UserLoop
from ees_mpi.registry.search import computing, searching
from ees_mpi.run.loop import Sink, arrays_of, check_enough, committing, deliver, seal
from ees_mpi.run.parts import evolution_of, noise_table, state_of, uses_torch
from ees_mpi.run.recording import NO_END, close_file, config_of, prepare_file, reopen_loop
from ees_mpi.run.start import Prepared
from ees_mpi.run.told import joined, means_of, rows_of, state_like, sums_of, weights_of
from ees_mpi.strategy.populations.diagonal import Diagonal
from ees_mpi.strategy.populations.mixture import Mixture
from ees_mpi.strategy.populations.normal import Normal

MAX_BYTES = 1 << 30  # bytes of the individuals that are in memory at a time
_OPEN: "weakref.WeakSet[Strategy]" = weakref.WeakSet()
_LIMITS: list[Any] = []  # of threads, in force while a Strategy is open


class Drawn(NamedTuple):
    """The draw of n individuals: z_i = means[parent_i] + sign_i * std * noise[offset_i : offset_i + D]."""

    means: Singles  # [K, D]
    std: float | Singles  # a number, or one for each parameter [D]
    parent: NDArray[np.int32]  # [n] which mean
    offset: NDArray[np.int64]  # [n] the begin of a noise vector in `Strategy.noise`
    sign: NDArray[np.int8]  # [n] +1 or -1


class Strategy:
    """An evolution strategy for your own loop: `z = es.ask()`, then `es.tell(behavior)`.

    mean: the first mean [D]; of a mixture, its means [K, D]
    objective, population, optimizer: a name, a dict of settings, a settings object, or your own: a torch function
        for the objective, a class for the others
    size, std: N and the standard deviation of the population; seed: of the run
    config: a preset, a .toml file, a run file, a dict or a Config, for all that is not given here; its task is not used
    trust: run the code that a run file names, such as its objective
    observation_dim, observation_share: O, and the share of individuals that feed the observation normaliser
        [default: 0.01, or more for about ten individuals]
    rollouts, starts: K starts of each individual, and which of them share their seeds: "own", "common" or "fixed"
    record: a run file to write; overwrite: replace an existing one; generations: how many are planned, for `info`
    """

    config: Config
    sampled: NDArray[np.bool_]  # [n] which of the rows that `ask` returned last feed the observation normaliser

    def __init__(
        self,
        mean: "ArrayLike",  # a text, so that `help` shows its name and not the long type
        objective: Any = None,
        *,
        size: int | None = None,
        std: float | None = None,
        seed: int | None = None,
        population: Any = None,
        optimizer: Any = None,
        config: Any = None,
        trust: bool = False,
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
        with computing():
            loop = UserLoop("Strategy")
            ranks = loop.ranks
            prepared: Prepared | None = None
            with loop.closed_by_errors():
                with ranks.together():
                    means = means_of(mean)
                    task: dict[str, Any] = {"observation_dim": observation_dim, "observation_share": observation_share}
                    task |= {"parameters": means.shape[1], "rollouts": rollouts, "starts": starts}
                    asked = config_of(config, task, parts, keys, trust)
                    if means.shape != (expected := (asked.population.components, means.shape[1])):
                        raise ConfigError(f"mean: expected the shape {expected} for this population, got {means.shape}")
                ranks.check_same(asked.to_toml().encode(), "a setting of Strategy")
                whole = ranks.from_root(lambda: asked)
                recorded = ranks.any(ranks.is_root and record is not None)
                with ranks.together():
                    if record is not None and not recorded:
                        raise ConfigError("record: rank 0 writes the file; expected record= on all ranks, or on rank 0")
                    configs.check(whole)
                    state = state_of(whole, means, np.zeros(1 + 2 * whole.task.observation_dim))
                    if record is not None and ranks.is_root:
                        prepared = prepare_file(record, whole, state, overwrite)
                self._begin(loop, whole, state, prepared, recorded)
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
        with computing():
            loop = UserLoop("Strategy.resume")
            prepared: Prepared | None = None

            def read() -> tuple[Config, State]:
                nonlocal prepared
                prepared = reopen_loop(Path(path), generations, force, trust)
                return prepared.config, prepared.state

            try:
                with loop.closed_by_errors():
                    config, state = loop.ranks.from_root(read)
                    self._begin(loop, config, state, prepared, True)
                    self._open_file(loop.ranks)
            except BaseException:
                if prepared:  # the program may go on, and resume the run later
                    prepared.close(fold=False)
                raise
        self._pin_threads()
        return self

    def _begin(self, loop: UserLoop, config: Config, state: State, prepared: Prepared | None, recorded: bool) -> None:
        """Check that all ranks begin alike, and fill the noise table; `prepared`: the file, on rank 0."""
        ranks = loop.ranks
        ranks.check_same(state.digest(), "the first mean (draw it with a fixed seed)")
        ranks.check_alike(machine.fingerprint(uses_torch(config)))
        self._method = evolution_of(config, noise_table(config, ranks, shared=True))
        self._loop, self.config, self._state = loop, config, state
        self._prepared, self._recorded = prepared, recorded  # recorded: there is a file, on rank 0
        self._sinks: list[Sink] = []
        self._work: Work | None = None  # of the last `ask`
        self._asked: list[range] = []
        self._given = np.zeros(0, np.int64)  # the individuals that `sampled` and `seeds` are about
        self._chunked = self._ready = False  # ready: B is known, and the file is open
        self._began = self._committed = 0.0  # when the individuals were asked for; seconds of the last commit
        self._record, self.sampled = Record(0, {}), np.zeros(0, np.bool_)
        self._outcomes: Outcomes | None = None  # of the last generation, if the record lacks its metrics
        if ranks.size > 1 or recorded:
            atexit.register(self.close)

    def __repr__(self) -> str:
        parts, population = self.config, self.config.population
        about = f"{parts.method.algorithm}, N = {population.size}, std {population.std:g}"
        return f"<Strategy {about}, {parts.task.parameters} parameters, at generation {self._state.generation}>"

    def _open_file(self, ranks: Ranks) -> None:
        """Open the file on rank 0, if there is one, and note the session in it; called on all ranks together."""
        with ranks.together():
            if prepared := self._prepared:
                prepared.config = self.config
                self._sinks = [committing(prepared.begin(ranks, {"device": "cpu"}))]
        self._ready = True

    def _pin_threads(self) -> None:
        """Give BLAS one thread until the last Strategy is closed: sums over several threads have other bits."""
        if not _OPEN:
            _LIMITS.clear()  # of those that were never closed
        pools = threadpoolctl.ThreadpoolController()
        # Several ranks share the cores of a node, so there all libraries have one thread.
        _LIMITS.append((pools.select(user_api="blas") if self._loop.ranks.size == 1 else pools).limit(limits=1))
        _OPEN.add(self)

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
        self._state, self._work = state_like(state, self._state), None

    @property
    def generation(self) -> int:
        """The number of generations that were told so far."""
        return self._state.generation

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
        return self._state.statistics

    @property
    def metrics(self) -> dict[str, float]:
        """The numbers of the last generation: entropy, fitness_mean, gradient_norm and others."""
        if self._outcomes:
            measured = metrics.logged(self._outcomes, self._method.settings, Ranks())  # the loop may be closed by now
            self._record = replace(self._record, arrays={**self._record.arrays, **measured})
            self._outcomes = None
        return self._record.metrics

    @property
    def rank(self) -> int:
        """The number of this rank, for work that one rank does, such as printing; without mpirun 0."""
        return self._loop.ranks.rank

    def ask(self, chunk: int | None = None) -> Any:
        """Return the individuals of this rank [n, D]; with `chunk`, an iterator over parts [m, D] of them.

        chunk: m at most. The parts are then the same for any number of ranks.
        """
        work, rows = self._ask(chunk)
        parameters = self._state.mean.shape[1]
        if (need := 4 * rows * parameters) > MAX_BYTES:
            raise ConfigError(
                f"ask: {rows} individuals of {parameters} parameters need {need / 2**30:.3g} GiB; expected at most "
                "1 GiB: `es.tell([simulate(part) for part in es.ask(chunk="
                f"{max(1, min(64, MAX_BYTES // (4 * parameters)))})])`"
            )
        self.sampled, parts = work.observe[:0], self._parts(work)
        return parts if self._chunked else next(parts)

    def _ask(self, chunk: int | None) -> tuple[Work, int]:
        """Draw the generation unless it is drawn, and choose the individuals of this rank.

        Return the work of all ranks, and how many individuals there are at most in a part.
        """
        self._loop.check_open()
        if self._work is None:
            self._work, self._began = self._method.ask(self._state), time.perf_counter()
        chunk = None if chunk is None else operator.index(chunk)
        if chunk is not None and chunk < 1:
            raise ConfigError(f"chunk: expected a whole number of at least 1, got {chunk!r:.80}")
        size, self._chunked = self.config.population.size, chunk is not None
        ranks = self._loop.ranks
        shares = ranks.cuts(size, chunk or 1)
        start, stop = shares[ranks.rank : ranks.rank + 2].tolist()
        if chunk is None:
            self._asked = [range(start, stop)]
            return self._work, int(np.diff(shares).max())
        self._asked = [range(low, min(low + chunk, stop)) for low in range(start, stop, chunk)]
        return self._work, min(chunk, size)

    def draw(self, chunk: int | None = None) -> Drawn:
        """Return the draw of this rank's individuals as data, for simulators that make them on a device.

        They are those of `ask(chunk)`, and `tell` takes their results.
        """
        population, learned = self.config.population, self._state.learned
        if type(population) not in (Normal, Diagonal, Mixture):
            kind = type(population).__name__
            raise ConfigError(f"draw: expected a normal, diagonal or mixture population, got {kind}; use `es.ask`")
        work, means = self._ask(chunk)[0], self._state.mean.view()
        mine, means.flags.writeable = work.draw.at(self.rows), False
        self.sampled, self._given = work.observe[self.rows], self.rows
        return Drawn(means, population.stds(learned, mine), mine.parent, mine.offset, mine.sign)

    @property
    def noise(self) -> Singles:
        """The noise table, read-only: put it on the device once; all ranks of a node have the same memory."""
        return self._method.noise.row(0, self._method.noise.size)

    def _parts(self, work: Work) -> Iterator[Singles]:
        population, learned, noise = self.config.population, work.state.learned, self._method.noise
        for part in self._asked:
            rows = population.individuals(learned, work.draw, part, noise)
            self.sampled, self._given = work.observe[part.start : part.stop], np.array(part)
            yield rows

    @property
    def rows(self) -> NDArray[np.int64]:
        """The numbers [n], among all N, of the individuals that this rank has of the last `ask`, with all its parts."""
        return np.array([individual for part in self._asked for individual in part], np.int64)

    def gather(self, values: Any) -> NDArray[Any]:
        """Return the values of all individuals [N, ...] on every rank, in order; all ranks call this after `ask`.

        values: those of the rows of this rank [n, ...], or after `ask(chunk)` a list with an array for each part
        """

        def job(ranks: Ranks) -> NDArray[Any]:
            with ranks.together():
                self._last_work("gather")
                rows, mine = self.rows, joined("gather", values, self._part_count, np.asarray)
                if mine.shape[:1] != rows.shape and (mine.size or rows.size):
                    raise TaskError(f"gather: expected an array of {len(rows)} rows, got one of shape {mine.shape}")
                if mine.dtype.hasobject:
                    raise TaskError(f"gather: expected an array of numbers, got one of {mine.dtype}")
            kind = " ".join([mine.dtype.str, *map(str, mine.shape[1:])]) if rows.size else ""
            given = ranks.allgather(np.frombuffer(f"{kind}\n".encode(), np.uint8)).tobytes().decode().split("\n")
            kinds = sorted({*given} - {""})  # a rank without rows takes the kind of the others
            with ranks.together():
                if len(kinds) != 1:
                    raise TaskError(f"gather: expected the same type and shape of a row on all ranks, got {kinds}")
            name, *shape = kinds[0].split()
            mine = mine.reshape(len(rows), *map(int, shape)).astype(name, copy=False)
            return ranks.allgather_by_index(rows, mine, self.config.population.size)

        return self._loop.call(job, 60 * self.config.run.stall_minutes)

    @property
    def seeds(self) -> NDArray[np.int64]:
        """The seeds [n, K] of the rollouts of the rows that `ask` returned last; see `rollouts` and `starts`."""
        return self._last_work("seeds").seeds[self._given]

    @property
    def _part_count(self) -> int | None:
        """The number of parts of the last `ask`; None if it returned one array."""
        return len(self._asked) if self._chunked else None

    def tell(
        self,
        behavior: Any = None,
        fitness: Any = None,
        *,
        valid: Any = None,
        observations: Any = None,
        weights: Any = None,
    ) -> None:
        """Make the update from the results of the individuals that `ask` returned last; all ranks call this.

        behavior [n, B], fitness [n], valid [n]: arrays, or after `ask(chunk)` lists with an array for each part; with
            several starts, the behavior is [n, K, B]; for standard ES tell(fitness=...) is enough
        observations: of each individual that is `sampled`, in order, an array [T, O]
        weights [N]: of all individuals, the same on every rank; the mean moves along the perturbations times these
            numbers, the objective is not used, and behavior, fitness and valid are not given
        """

        def job(ranks: Ranks) -> None:
            own = weights is not None
            with ranks.together():
                work = self._last_work("tell")
                if own:
                    if self._recorded:
                        raise ConfigError("tell: a run file has the weights of its objective; expected no weights=")
                    told = weights_of(weights, work.size, (behavior, fitness, valid))
                else:
                    told = rows_of(self.config, self.rows, self._part_count, behavior, fitness, valid)
                ended, dim = np.ones(len(self.rows)) if own else told[:, 1], self.config.task.observation_dim
                sums = sums_of(self.rows, ended, work.observe[self.rows], observations, dim)
            with located(f"generation {work.state.generation}"):
                if own:
                    self._tell_weights(work, told, sums, ranks)
                else:
                    self._tell(work, told, sums, ranks)

        with searching(*self.config.folders):
            self._loop.call(job, 60 * self.config.run.stall_minutes)

    def _tell(self, work: Work, told: Floats, sums: Floats, ranks: Ranks) -> None:
        """Make the update from the rows of this rank; `told`, `sums`: as `gather` takes them."""
        evaluated = time.perf_counter()
        told = self._prepare(told, ranks)
        outcomes, means = gather(told, sums, np.arange(work.size), work, ranks)
        check_enough(outcomes, work.state.generation, saved=self._recorded)
        gathered = time.perf_counter()
        found = Found(outcomes, means, {"evaluate": evaluated - self._began, "gather": gathered - evaluated})
        following, logged = self._method.tell(work, found, ranks)
        arrays = {**arrays_of(work, found), **logged}
        later = ranks.size == 1 and not self._recorded  # the entropy may take longer than the update: on demand
        if not later:
            arrays |= metrics.logged(outcomes, self._method.settings, ranks)
        self._advance(work, following, arrays, {**found.seconds, "update": time.perf_counter() - gathered}, ranks)
        self._outcomes = outcomes if later else None

    def _tell_weights(self, work: Work, weights: Floats, sums: Floats, ranks: Ranks) -> None:
        """Make the update from the weights [N] of all individuals."""
        evaluated = time.perf_counter()
        ranks.check_same(weights.tobytes(), "tell: the array of weights")
        seen = gather_sums(sums, ranks)
        following, logged = self._method.move(work, weights, seen, work.state.memory, ranks)
        seconds = {"evaluate": evaluated - self._began, "gather": 0.0, "update": time.perf_counter() - evaluated}
        self._advance(work, following, logged, seconds, ranks)
        self._outcomes = None

    def _advance(self, work: Work, following: State, arrays: Arrays, seconds: dict[str, float], ranks: Ranks) -> None:
        """Seal and commit the generation, and take the next state."""
        own = self._method.settings.own_names if OWN in arrays else ()
        record = seal(work, following, arrays, {**seconds, "commit": self._committed}, ranks, own)
        self._committed = deliver(record, following, self._sinks, ranks)
        self._state, self._work, self._record = following, None, record

    def _last_work(self, caller: str) -> Work:
        """Return the work of the last `ask`."""
        if self._work is None:
            raise TaskError(f"{caller}: expected a call of ask before it")
        return self._work

    def _prepare(self, rows: Floats, ranks: Ranks) -> Floats:
        """Learn B from the first outcomes, and open the file; return the rows with B columns for the behaviour."""
        starts = self.config.task.rollouts
        if not self._ready:
            dim = (rows.shape[1] - LEADING) // behavior_columns(1, starts) if len(rows) else 0
            dims = set(ranks.each(dim).tolist()) - {0}
            with ranks.together():
                if len(dims) != 1:
                    raise TaskError(f"tell: expected behaviours with the same number of components, got {sorted(dims)}")
                task = msgspec.structs.replace(self.config.task, behavior_dim=dims.pop())
                self.config = replace(self.config, task=task)
                self._method = replace(self._method, settings=self.config.metric_settings())
                self.config.method.try_out(task, self.config.population)
            self._open_file(ranks)
        return rows.reshape(len(rows), LEADING + behavior_columns(self.config.task.behavior_dim, starts))

    def close(self, finished: bool | None = None) -> None:
        """Close the run file and leave the loop; called on all ranks, and at the end of the program.

        finished: whether the file says that the run is complete  [default: no exception ends the program]
        """
        atexit.unregister(self.close)
        if finished is None:
            finished = getattr(sys, "last_value", None) is None
        try:
            if self._prepared:
                close_file(self._prepared, self.config, self._state.generation, finished)
        finally:
            self._loop.close()
            _OPEN.discard(self)
            while _LIMITS and not _OPEN:
                _LIMITS.pop().restore_original_limits()

    def __enter__(self) -> "Strategy":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or self._loop.ranks.size == 1:  # otherwise the other ranks may be far from their next call
            self.close(finished=error is None)
