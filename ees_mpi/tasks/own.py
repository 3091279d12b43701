"""Tasks that a user writes: a class (`custom`), a plain function (`function`), a loop with `ees_mpi.Strategy`.

custom    `Task(**settings)` needs the members of `tasks.base.TaskPlugin`: `parameters`, `behavior_dim`,
          `initial(generator)` and `open(seed)`, which returns `tasks.base.Rollouts`. Optional: `observation_dim`
          (0 by default), `device` and `open_batches` for GPUs (see `tasks.base.Task`), and `film(seed, view)`, so that
          `ees-mpi replay` can film it. MAML also needs `layers`, `steps` and `walker(seed)`, which returns a
          `tasks.base.Walker`. See `jobs/examples/own_task.py`.
function  `f(z)` returns a behaviour, or a behaviour and a fitness. With `batch`, it gets several individuals,
          `f(z[n, D])`. Their number is fixed, so that the bits do not depend on the number of ranks. A function with
          an argument `seed`, `f(z, seed)`, also gets the seed of each rollout.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, NoReturn

import msgspec
import numpy as np

from ees_mpi.arrays import Floats, Singles, doubles
from ees_mpi.errors import ConfigError, PluginError, RunFileError, located
from ees_mpi.generation import Batch, Outcome
from ees_mpi.registry import key
from ees_mpi.registry.plugins import Guard, calling, function, make_once
from ees_mpi.tasks import base
from ees_mpi.tasks.base import BatchRollouts, Drawable, Limbed, Say, Task, View, Walker

KEY = "task.function"
ROWS = 64  # individuals of a batch


class OwnCode(Task, frozen=True):
    """A class or a function of the user."""

    function: str
    deterministic: base.Deterministic = True
    on_error: base.OnError = "stop"
    rollouts: base.RolloutCount = 1
    starts: base.StartsOrNone = None
    reset_seed: base.ResetSeed = None
    place: base.Axes = msgspec.field(default=None, name="axes")

    begins_at_origin = False

    def axes_of(self, behavior_dim: int) -> int:
        return base.place_numbers(self.place, behavior_dim)

    @property
    def label(self) -> str:
        return self.function

    @property
    def own_code(self) -> str:
        return f"{KEY} {self.function}"


def member(name: str, kind: type, *default: Any) -> property:
    """Return a property with the value of a member of the user's task; without a default the task must have it."""
    return property(lambda self: self.read(name, kind, *default))


class CustomTask(OwnCode, frozen=True, kw_only=True):
    """A class that a user writes."""

    function: Annotated[str, key("The class of the task, as package.module:Task.")]
    settings: Annotated[dict[str, Any], key("The keyword arguments of the class.")] = {}  # noqa: RUF012  (msgspec copies it)
    observation_share: Annotated[
        base.Share, key("The share of rollouts from which the normaliser learns; at least ten, if not set.", "share")
    ] = 0.01

    @property
    def task(self) -> Any:
        return make_once(self.function, KEY, "parameters behavior_dim initial open", self.settings)

    parameters = member("parameters", int)
    behavior_dim = member("behavior_dim", int)
    observation_dim = member("observation_dim", int, 0)
    layers = member("layers", tuple, ())
    steps = member("steps", int, 1)
    device = member("device", str, "cpu")
    observes_ten = True
    sizes_known = False

    def read(self, name: str, kind: type, *default: Any) -> Any:
        """Return the value of a member of the user's task, or the default."""
        with calling(self.own_code, name):
            return kind(getattr(self.task, name, *default))

    @property
    def walkable(self) -> bool:
        return hasattr(self.task, "walker")

    def lacks_for_gpu(self) -> str:
        """Return the reason why the user's task cannot be evaluated on a GPU; empty: it can."""
        return "" if hasattr(self.task, "open_batches") else f"{self.function} has no open_batches"

    def open_batches(self, seed: int, noise: Singles, wanted: int, antithetic: bool, say: Say) -> BatchRollouts:
        return OwnBatches(self.task.open_batches(self.start_seed(seed), noise, wanted, antithetic, say), self.own_code)

    def walker(self, seed: int) -> Walker:
        walker: Any = Guard(self.task.walker(self.start_seed(seed)), self.own_code)
        return walker

    def film(self, seed: int, view: View) -> Drawable | Limbed | None:
        """Return the user's evaluator that can be filmed, if the task has `film`."""
        drawable = self.task.film(self.start_seed(seed), view) if hasattr(self.task, "film") else None
        return None if drawable is None else OwnRollouts(drawable, self, lambda seed: self.task.film(seed, view))

    def initial(self, generator: np.random.Generator) -> Singles:
        with calling(self.own_code, "initial()"):
            return np.asarray(self.task.initial(generator), np.float32)

    def open(self, seed: int) -> "OwnRollouts":
        return OwnRollouts(self.task.open(self.start_seed(seed)), self, self.task.open)

    def check(self) -> None:
        """Read the members that a run needs, and evaluate one individual."""
        _ = self.device, self.axes
        start = self.initial(np.random.default_rng(0))
        if start.shape != (self.parameters,):
            raise ConfigError(f"{self.own_code}: initial() has shape {start.shape}; expected ({self.parameters},)")
        rollouts, size = self.open(0), self.observation_dim
        rollouts.evaluate(0, start, np.zeros(size), np.ones(size), False)
        rollouts.close()


class OwnRollouts(Guard):
    """An evaluator of the user; an error in it names the individual. Its outcomes are checked."""

    def __init__(self, evaluator: Any, task: CustomTask, again: Callable[[int], Any]):
        """Wrap an evaluator; `again`: makes another one, from a seed."""
        super().__init__(evaluator, task.own_code)
        self.__dict__.update(_expected=(task.behavior_dim,), _again=again)

    def reseed(self, seed: int) -> None:
        """Start the next rollouts with this seed: with the method `reseed` of the user, or in a new evaluator."""
        if hasattr(self._thing, "reseed"):
            self.__getattr__("reseed")(seed)
            return
        on_step = getattr(self._thing, "on_step", None)
        self.__getattr__("close")()
        self.__dict__["_thing"] = self._again(seed)
        if on_step is not None:  # of a film
            self._thing.on_step = on_step

    def evaluate(
        self, index: int, parameters: Singles, observation_mean: Floats, observation_std: Floats, observe: bool
    ) -> Outcome:
        with located(f"individual {index}"):
            with calling(self._code, "evaluate()"):
                given = parameters.copy(), observation_mean.copy(), observation_std.copy()  # the user may change them
                outcome: Any = self._thing.evaluate(index, *given, observe)
            if not isinstance(outcome, Outcome) or outcome.index != index:
                expected = f"expected the ees_mpi.generation.Outcome of individual {index}"
                raise PluginError(f"{self._code}: evaluate() returned {outcome!r:.80}; {expected}")
            shapes = np.shape(outcome.fitness), np.shape(outcome.behavior)
            if shapes != ((), self._expected):
                has = f"a fitness of shape {shapes[0]} and a behaviour of shape {shapes[1]}"
                expected = f"expected ees_mpi.generation.Outcome with {self._expected} and ()"
                raise PluginError(f"{self._code}: evaluate() returned {has}; {expected}")
            with calling(self._code, "what evaluate() returned"):
                return _copied(outcome)


class OwnBatches(Guard):
    """A batch evaluator of the user."""

    def evaluate_batch(self, batch: Batch, observation_mean: Floats, observation_std: Floats) -> list[Outcome]:
        with calling(self._code, "evaluate_batch()"):
            outcomes = self._thing.evaluate_batch(batch, observation_mean.copy(), observation_std.copy())
            return [_copied(outcome) for outcome in outcomes]


def _copied(outcome: Outcome) -> Outcome:
    """Return an outcome with copies of its arrays: the user's code may fill the same ones in the next rollout."""
    sums = None if outcome.observations is None else np.array(outcome.observations)
    return replace(
        outcome, behavior=tuple(map(float, outcome.behavior)), fitness=float(outcome.fitness), observations=sums
    )


class Function(OwnCode, frozen=True, kw_only=True):
    """A plain function of the user: f(z) returns a behaviour, or a behaviour and a fitness."""

    function: Annotated[str, key("The function, as package.module:f.")]
    parameters: Annotated[int, key("D: the number of parameters of an individual.", ge=1)]
    behavior_dim: Annotated[int, key("B: the length of a behaviour.", ge=1)]
    batch: Annotated[bool, key(f"Whether the function gets up to {ROWS} individuals at a time: f(z[n, D]).")] = False
    start: Annotated[float, key("The first mean: this number in all parameters.")] = 0.0

    def initial(self, generator: np.random.Generator) -> Singles:
        return np.full(self.parameters, self.start, np.float32)

    def open(self, seed: int) -> "OneByOne":
        return (InBatches if self.batch else OneByOne)(self, self.start_seed(seed))

    @property
    def gives_fitness(self) -> bool:  # type: ignore[override]
        rollouts = self.open(0)
        self._evaluate_first_mean(rollouts)
        return rollouts.gives_fitness

    def _evaluate_first_mean(self, rollouts: "OneByOne") -> None:
        rollouts.evaluate(0, self.initial(np.random.default_rng(0)), np.zeros(0), np.zeros(0), False)

    def check(self) -> None:
        """Evaluate the first mean; raise a ConfigError if several starts could not differ."""
        rollouts = self.open(0)
        several = self.rollouts > 1 or self.starts in ("own", "common")
        if several and self.deterministic and not rollouts.takes_seed:
            raise ConfigError(
                f"task.rollouts = {self.rollouts}, task.starts: {self.own_code} has no argument `seed`, so all starts "
                "are the same; expected f(z, seed)"
            )
        _ = self.axes
        self._evaluate_first_mean(rollouts)


class OneByOne:
    """Calls the function with one individual at a time."""

    gives_fitness = False  # whether the function returned one, the last time

    def __init__(self, task: Function, seed: int):
        self._task, self._call = task, function(task.function, KEY)
        try:
            self.takes_seed = "seed" in inspect.signature(self._call).parameters
        except ValueError:  # it is not written in Python
            self.takes_seed = False
        self.reseed(seed)

    def reseed(self, seed: int) -> None:
        """Call the function with this seed from now on, if it has one."""
        self._named = {"seed": seed} if self.takes_seed else {}

    def evaluate(
        self, index: int, parameters: Singles, observation_mean: Floats, observation_std: Floats, observe: bool
    ) -> Outcome:
        return self._outcomes([index], parameters, (self._task.behavior_dim,))[0]

    def _outcomes(self, index: Sequence[int], parameters: Singles, shape: tuple[int, ...]) -> list[Outcome]:
        """Call the function; return the outcomes of its individuals. `shape`: that of their behaviours."""
        code, name = self._task.own_code, self._task.function.rpartition(":")[2]
        with located(f"individual {index[0]}"):
            with calling(code, f"{name}()"):
                returned = self._call(parameters.copy(), **self._named)  # the function may change them
            with calling(code, f"what {name}() returned"):
                given = isinstance(returned, tuple) and len(returned) == 2 and np.size(returned[0]) == np.prod(shape)
                self.gives_fitness = given
                behavior, fitness = returned if given else (returned, np.zeros(shape[:-1]))
                behavior, fitness = doubles(behavior), doubles(fitness)
            whole = behavior.size == np.prod(shape) and behavior.shape[:1] in (shape[:1], ())
            if not whole or fitness.size != len(index):
                raise PluginError(
                    f"{code} returned a behaviour of shape {behavior.shape} and a fitness of shape {fitness.shape}; "
                    f"expected {shape} and {shape[:-1]}, or the behaviour alone"
                )
        rows = zip(index, behavior.reshape(len(index), -1).tolist(), fitness.ravel().tolist(), strict=True)
        return [Outcome(number, tuple(row), value, 1) for number, row, value in rows]

    def close(self) -> None:
        """Do nothing: there are no resources to release."""


class InBatches(OneByOne):
    """Calls the function with several individuals at a time."""

    rows = ROWS

    def evaluate(
        self, index: int, parameters: Singles, observation_mean: Floats, observation_std: Floats, observe: bool
    ) -> Outcome:
        return self.evaluate_rows([index], parameters[None])[0]

    def evaluate_rows(self, index: Sequence[int], parameters: Singles) -> list[Outcome]:
        """Evaluate individuals [n, D] in one call."""
        return self._outcomes(index, parameters, (len(index), self._task.behavior_dim))


class OwnLoop(Task, frozen=True):
    """The user's own loop with `ees_mpi.Strategy`; only that program can evaluate individuals."""

    parameters: Annotated[int, key("D: the number of parameters of an individual.", ge=1)]
    behavior_dim: Annotated[int, key("B: the length of a behaviour; 0: not yet known.", ge=0)] = 0
    observation_dim: Annotated[int, key("O: the number of normalised observations; 0: none.", ge=0)] = 0
    observation_share: Annotated[
        base.Share, key("The share of individuals from which the normaliser learns; at least ten, if not set.", "share")
    ] = 0.01
    rollouts: base.RolloutCount = 1
    starts: base.Starts = "fixed"

    observes_ten = True
    in_program = True

    def _refuse(self, *arguments: Any, **named: Any) -> NoReturn:
        """Raise a RunFileError: only the program has the first mean, and can evaluate individuals."""
        raise RunFileError(
            "the task of this run was the user's own loop (ees_mpi.Strategy), so only that program can evaluate "
            "individuals; in Python, ees_mpi.Strategy.resume(RUN) continues the run"
        )

    initial = open = film = _refuse
