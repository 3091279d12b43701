"""The libraries of the comparison, one class each, used in the way that its documentation calls the fast one.

A library makes a generation with `step`. `centre` is the network that it has learned, `save` and `load` are the way to
continue that its documentation or its authors name. `evaluate(z, xp)` returns the behaviours [n, 2] of networks z; the
fitness is the first number of the behaviour, except for MaxEnt and CMA-MAE, which get behaviours.
"""

import hashlib
import os
import pickle
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import walker

Evaluate = Callable[..., Any]
FILE = Path("checkpoint")


def free(z: Any, xp: Any = np) -> Any:
    """Return behaviours that cost nothing, for the time of an update; a copy, which does not keep z alive."""
    return z[:, :2] * 1


class Library:
    """A library, and the numbers that all libraries get: the first mean, N, the standard deviation, the seed."""

    package: ClassVar[str]
    kept: ClassVar[str]  # the attribute that has everything on which the next generation depends
    rates: ClassVar[tuple[float, ...]] = (0.01, 0.03, 0.1, 0.3, 1.0)  # learning rates of which the best is taken

    def __init__(self, evaluate: Evaluate, mean: np.ndarray, size: int, std: float, seed: int, rate: float = 0.03):
        self.evaluate, self.mean, self.size, self.std, self.seed, self.rate = evaluate, mean, size, std, seed, rate
        self.start()

    def start(self) -> None:
        """Begin a run."""

    def step(self) -> None:
        """Make one generation."""

    def centre(self) -> np.ndarray:
        """Return the learned network [D]."""
        raise NotImplementedError

    def digest(self) -> str:
        """Return a hash of what was learned."""
        return hashlib.sha256(np.ascontiguousarray(self.centre()).tobytes()).hexdigest()

    def log(self) -> None:
        """Switch on what the library itself writes to disk."""

    def save(self, generation: int) -> None:
        """Save all that the next generation depends on, so that a kill leaves the old file or the new one."""
        with open("checkpoint.part", "wb") as file:
            pickle.dump((generation, self.state()), file)
        os.replace("checkpoint.part", FILE)

    def load(self) -> int:
        """Continue from the saved file, if there is one; return the number of generations in it."""
        if not FILE.exists():
            return 0
        generation, state = pickle.loads(FILE.read_bytes())  # noqa: S301  written by `save` of this program
        self.restore(state)
        return int(generation)

    def state(self) -> Any:
        """Return what is pickled."""
        return getattr(self, self.kept)

    def restore(self, state: Any) -> None:
        """Continue from what was pickled."""
        setattr(self, self.kept, state)

    @classmethod
    def version(cls) -> str:
        """Return the installed version."""
        return version(cls.package)


class MaxEnt(Library):
    """ees_mpi.Strategy."""

    package: str = "ees_mpi"
    objective: ClassVar[Any] = {"name": "maxent", "bandwidth": 1.0}
    record: str | None = None

    def start(self) -> None:
        from ees_mpi import Strategy

        if self.record and Path(self.record).exists():
            self.es = Strategy.resume(self.record)
            return
        adam = {"name": "adam", "lr": self.rate}
        # A table of 2^28 numbers as in the presets of the paper, where individuals are as large as there.
        noise = {"noise": {"size": 2**28 if len(self.mean) > 10_000 else 2**24}, "run": {"fsync": False}}
        size = {"size": self.size, "std": self.std, "seed": self.seed}
        self.es = Strategy(self.mean, self.objective, optimizer=adam, config=noise, record=self.record, **size)

    def step(self) -> None:
        behavior = [self.evaluate(z) for z in self.es.ask(chunk=64)]
        self.es.tell(behavior, [part[:, 0] for part in behavior])

    def centre(self) -> np.ndarray:
        return np.array(self.es.mean)

    def log(self) -> None:
        self.record = "run.h5"
        self.start()

    def save(self, generation: int) -> None:
        """Do nothing: `tell` has committed the generation."""

    def load(self) -> int:
        self.log()
        return self.es.state.generation


class StandardES(MaxEnt):
    """ees_mpi.Strategy with the objective of the other libraries."""

    objective = "fitness"


class Evosax(Library):
    """evosax: a whole generation, rollouts included, is one jitted function."""

    package = "evosax"

    def start(self) -> None:
        import jax
        import optax
        from evosax.algorithms import Open_ES
        from jax import numpy as jnp

        std = optax.constant_schedule(self.std)
        es = Open_ES(self.size, jnp.zeros(len(self.mean)), optimizer=optax.adam(self.rate), std_schedule=std)
        params, mesh = es.default_params, jax.sharding.Mesh(jax.devices(), ("device",))
        rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("device"))
        evaluate = walk_in_jax if self.evaluate is walker.walk else self.evaluate

        @jax.jit
        def generation(key: Any, state: Any) -> Any:
            key, asked, told = jax.random.split(key, 3)
            population, state = es.ask(asked, state, params)
            if jax.device_count() > 1:  # each device of JAX gets its share of the population
                population = jax.lax.with_sharding_constraint(population, rows)
            state, _ = es.tell(told, population, -evaluate(population)[:, 0], state, params)
            return key, state

        self.generation = generation
        key = jax.random.key(self.seed)
        self.carry = key, es.init(key, jnp.asarray(self.mean), params)

    def step(self) -> None:
        self.carry = self.generation(*self.carry)
        self.carry[1].mean.block_until_ready()

    def centre(self) -> np.ndarray:
        return np.asarray(self.carry[1].mean)

    def state(self) -> Any:
        import jax

        return jax.random.key_data(self.carry[0]), self.carry[1]

    def restore(self, state: Any) -> None:
        import jax

        self.carry = jax.random.wrap_key_data(state[0]), state[1]


def walk_in_jax(z: Any) -> Any:
    """Return `walker.walk`, with JAX's own loop over the steps."""
    import jax
    from jax import numpy as jnp

    network, place = walker.layers(z), jnp.zeros((z.shape[0], 1, 2))

    def step(carry: Any, clock: Any) -> Any:
        return walker.step(jnp, network, *carry, clock), None

    (place, _), _ = jax.lax.scan(step, (place, place), jnp.asarray(walker.clocks()))
    return place[:, 0]


def first_number(z: Any, evaluate: Evaluate) -> Any:
    """Return the fitness of EvoTorch's solutions."""
    import torch

    return evaluate(z, torch)[:, 0]


class EvoTorch(Library):
    """EvoTorch: PGPE with ClipUp, as in its documentation; the objective takes the whole population as a tensor."""

    package, kept = "evotorch", "searcher"
    actors: ClassVar[int | None] = None  # 0 or more: a problem with actors cannot have a seed of its own (its issue 65)

    def start(self) -> None:
        import torch
        from evotorch import Problem
        from evotorch.algorithms import PGPE
        from evotorch.decorators import vectorized

        torch.set_num_threads(len(os.sched_getaffinity(0)))
        torch.manual_seed(self.seed)
        problem = Problem(
            "max",
            vectorized(partial(first_number, evaluate=self.evaluate)),
            solution_length=len(self.mean),
            initial_bounds=(-1.0, 1.0),
            seed=self.seed if self.actors is None else None,
            num_actors=self.actors or 0,
        )
        self.searcher = PGPE(
            problem,
            popsize=self.size,
            center_learning_rate=self.rate,
            stdev_learning_rate=0.1,
            stdev_init=self.std,
            center_init=torch.tensor(self.mean),
            optimizer="clipup",
            optimizer_config={"max_speed": 2 * self.rate},
        )

    def step(self) -> None:
        self.searcher.step()

    def centre(self) -> np.ndarray:
        return self.searcher.status["center"].numpy().copy()

    def log(self) -> None:
        from evotorch.logging import PicklingLogger

        self.logger = PicklingLogger(self.searcher, interval=10, directory=".", verbose=False)


class Pyribs(Library):
    """pyribs: CMA-MAE. The measures are the final place, the objective is its distance from the start.

    With an objective of 1 everywhere it stays in the four cells around the start: there is nothing to climb.
    """

    package, kept = "ribs", "scheduler"
    rates = (0.05, 0.2, 0.5, 1.0)  # its first standard deviation

    def start(self) -> None:
        from ribs.archives import GridArchive
        from ribs.emitters import EvolutionStrategyEmitter
        from ribs.schedulers import Scheduler

        large = len(self.mean) > 10_000
        shape: dict[str, Any] = {
            "solution_dim": len(self.mean),
            "dims": [walker.CELLS] * 2,
            "ranges": [(-walker.REACH, walker.REACH)] * 2,
            "dtype": np.float32,
            "seed": self.seed,
        }
        archive = GridArchive(**shape, learning_rate=0.01, threshold_min=0.0)
        count = 1 if large else 5  # emitters
        emitters = [
            EvolutionStrategyEmitter(
                archive,
                x0=self.mean,
                sigma0=self.rate,
                ranker="imp",
                es="openai_es" if large else "sep_cma_es",  # its documentation names both for many parameters
                selection_rule="mu",
                restart_rule="basic",
                batch_size=self.size // count,
                seed=self.seed + 1 + k,
            )
            for k in range(count)
        ]
        self.scheduler = Scheduler(archive, emitters, result_archive=GridArchive(**shape))

    def step(self) -> None:
        places = self.evaluate(self.scheduler.ask())
        self.scheduler.tell(np.hypot(*places.T), places)

    def centre(self) -> np.ndarray:
        """Return one of the networks in the archive: it has no learned mean that stands for all."""
        return np.asarray(self.scheduler.result_archive.sample_elites(1)["solution"][0])

    def digest(self) -> str:
        return hashlib.sha256(self.scheduler.result_archive.data("solution").tobytes()).hexdigest()

    def places(self) -> np.ndarray:
        """Return the final places of all networks in the archive."""
        return np.asarray(self.scheduler.result_archive.data("measures"))


class Cma(Library):
    """cma: the whole covariance matrix, or its diagonal where there are many parameters."""

    package = "cma"
    rates = (0.02, 0.05, 0.2)  # its first standard deviation
    logs = False

    def start(self) -> None:
        import cma

        options = {"popsize": self.size, "seed": self.seed + 1, "verb_disp": 0, "CMA_diagonal": len(self.mean) > 10_000}
        self.es = cma.CMAEvolutionStrategy(self.mean, self.rate, options)

    def step(self) -> None:
        solutions = self.es.ask()
        fitness = self.evaluate(np.asarray(solutions, np.float32))[:, 0]
        self.es.tell(solutions, -fitness.astype(float))
        if self.logs:
            self.es.logger.add()

    def centre(self) -> np.ndarray:
        return self.es.result.xfavorite.astype(np.float32)

    def log(self) -> None:
        self.logs = True

    def state(self) -> Any:
        return self.es.pickle_dumps()

    def restore(self, state: Any) -> None:
        self.es = pickle.loads(state)  # noqa: S301  written by `save` of this program


class AuthorsLayout(Library):
    """The layout of the authors' program, in our own lines of numpy; only its update is timed.

    Each worker returns a place in the table of noise and an outcome. The update takes the ranks of the outcomes and
    adds up slices of the table, some hundred rows at a time, as products of a row of weights and a stack of slices.
    """

    package, rows = "numpy", 500
    rates = (0.03,)

    def start(self) -> None:
        generator = np.random.default_rng(self.seed)
        self.table = generator.standard_normal(250_000_000, dtype=np.float32)
        self.generator, self.theta = generator, self.mean.astype(np.float32)
        self.first, self.second, self.generation = np.zeros_like(self.theta), np.zeros_like(self.theta), 0

    def step(self) -> None:
        length = len(self.theta)
        at = self.generator.integers(0, len(self.table) - length + 1, self.size // 2)
        fitness = np.empty((self.size // 2, 2))
        for pair, index in enumerate(at):  # the workers make their individuals
            noise = self.std * self.table[index : index + length]
            fitness[pair] = [self.evaluate(z[None])[0, 0] for z in (self.theta + noise, self.theta - noise)]
        ranks = (fitness.ravel().argsort().argsort() / (self.size - 1) - 0.5).reshape(fitness.shape)
        weights = (ranks[:, 0] - ranks[:, 1]).astype(np.float32)
        gradient = np.zeros(length, np.float32)
        for begin in range(0, len(at), self.rows):
            part = slice(begin, begin + self.rows)
            gradient += weights[part] @ np.stack([self.table[index : index + length] for index in at[part]])
        self.adam(gradient / (self.size * self.std))

    def adam(self, gradient: np.ndarray) -> None:
        """Make a step of Adam."""
        self.generation += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        first, second = self.first / (1 - 0.9**self.generation), self.second / (1 - 0.999**self.generation)
        self.theta = self.theta + np.float32(self.rate) * first / (np.sqrt(second) + 1e-8)

    def centre(self) -> np.ndarray:
        return self.theta


LIBRARIES: dict[str, type[Library]] = {
    "ees_mpi-maxent": MaxEnt,
    "ees_mpi-es": StandardES,
    "evosax": Evosax,
    "evotorch": EvoTorch,
    "pyribs": Pyribs,
    "cma": Cma,
    "layout": AuthorsLayout,
}
