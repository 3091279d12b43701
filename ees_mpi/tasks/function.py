"""A task that is one plain function: `f(z)` returns a behaviour, or a behaviour and a fitness.

With `batch`, the function gets several individuals, `f(z[n, D])`. Their number is fixed, so that the bits do not depend
on the number of ranks. A function with an argument `seed`, `f(z, seed)`, also gets the seed of each rollout.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np

from ees_mpi.arrays import Floats, Singles, doubles
from ees_mpi.errors import ConfigError, PluginError, located
from ees_mpi.generation import Outcome
from ees_mpi.registry import key
from ees_mpi.registry.plugins import calling, function
from ees_mpi.tasks.base import Task
from ees_mpi.tasks.keys import Axes, Deterministic, OnError, ResetSeed, RolloutCount, StartsOrNone, place_numbers

KEY = "task.function"
ROWS = 64  # individuals of a batch


class Function(Task, frozen=True):
    """A plain function of the user: f(z) returns a behaviour, or a behaviour and a fitness."""

    function: Annotated[str, key("The function, as package.module:f.")]
    parameters: Annotated[int, key("D: the number of parameters of an individual.", ge=1)]
    behavior_dim: Annotated[int, key("B: the length of a behaviour.", ge=1)]
    batch: Annotated[bool, key(f"Whether the function gets up to {ROWS} individuals at a time: f(z[n, D]).")] = False
    start: Annotated[float, key("The first mean: this number in all parameters.")] = 0.0
    deterministic: Deterministic = True
    on_error: OnError = "stop"
    rollouts: RolloutCount = 1
    starts: StartsOrNone = None
    reset_seed: ResetSeed = None
    place: Axes = msgspec.field(default=None, name="axes")

    begins_at_origin = False

    def axes_of(self, behavior_dim: int) -> int:
        return place_numbers(self.place, behavior_dim)

    @property
    def label(self) -> str:
        return self.function

    @property
    def own_code(self) -> str:
        return f"{KEY} {self.function}"

    def initial(self, generator: np.random.Generator) -> Singles:
        return np.full(self.parameters, self.start, np.float32)

    def open(self, seed: int) -> "OneByOne":
        return (InBatches if self.batch else OneByOne)(self, function(self.function, KEY), self.start_seed(seed))

    def check(self) -> None:
        """Evaluate the first mean; raise a ConfigError if several starts could not differ."""
        several = self.rollouts > 1 or self.starts in ("own", "common")
        if several and self.deterministic and not takes_seed(function(self.function, KEY)):
            raise ConfigError(
                f"task.rollouts = {self.rollouts}, task.starts: {self.own_code} has no argument `seed`, so all starts "
                "are the same; expected f(z, seed)"
            )
        _ = self.axes
        self.open(0).evaluate(0, self.initial(np.random.default_rng(0)), np.zeros(0), np.zeros(0), False)


def takes_seed(call: Callable[..., Any]) -> bool:
    """Return whether a function has an argument `seed`."""
    try:
        return "seed" in inspect.signature(call).parameters
    except ValueError:  # it is not written in Python
        return False


class OneByOne:
    """Calls the function with one individual at a time."""

    def __init__(self, task: Function, call: Callable[..., Any], seed: int):
        self._task, self._call, self._code = task, call, task.own_code
        self._named = {"seed": seed} if takes_seed(call) else {}

    def reseed(self, seed: int) -> None:
        """Call the function with this seed from now on, if it has one."""
        self._named = dict.fromkeys(self._named, seed)

    def evaluate(
        self, index: int, parameters: Singles, observation_mean: Floats, observation_std: Floats, observe: bool
    ) -> Outcome:
        """Evaluate one individual."""
        return self._outcomes([index], parameters, (self._task.behavior_dim,))[0]

    def _outcomes(self, index: Sequence[int], parameters: Singles, shape: tuple[int, ...]) -> list[Outcome]:
        """Call the function; return the outcomes of its individuals. `shape`: that of their behaviours."""
        with located(f"individual {index[0]}"):
            with calling(self._code, f"{self._task.function.rpartition(':')[2]}()"):
                returned = self._call(parameters, **self._named)
            try:
                given = isinstance(returned, tuple) and len(returned) == 2 and np.size(returned[0]) == np.prod(shape)
                behavior, fitness = returned if given else (returned, np.zeros(shape[:-1]))
                behavior, fitness = doubles(behavior), doubles(fitness)
            except Exception as error:  # of a sequence, tensor or array of the user
                expected = f"a behaviour of shape {shape}, or a behaviour and a fitness"
                raise PluginError(f"{self._code} returned {returned!r:.80}; expected {expected}: {error}") from None
            whole = behavior.size == np.prod(shape) and behavior.shape[:1] in (shape[:1], ())
            if not whole or fitness.size != len(index):
                raise PluginError(
                    f"{self._code} returned a behaviour of shape {behavior.shape} and a fitness of shape "
                    f"{fitness.shape}; expected {shape} and {shape[:-1]}, or the behaviour alone"
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
