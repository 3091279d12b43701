"""A task that a user writes: `task.function = "package.module:Task"`.

`Task(**settings)` needs the members of `tasks.base.TaskPlugin`: `parameters`, `behavior_dim`, `initial(generator)` and
`open(seed)`, which returns an `ees_mpi.tasks.rollouts.Rollouts`. Optional: `observation_dim` (0 by default),
`device` and `open_batches` for GPUs (see `tasks.base.Task`), and `film(seed, view)`, so that `ees-mpi replay` can film
it. MAML also needs `layers`, `steps` and `walker(seed)`, which returns an `ees_mpi.tasks.rollouts.Walker`. See
`jobs/examples/own_task.py`.
"""

from collections.abc import Callable
from typing import Annotated, Any, Self

import msgspec
import numpy as np

from ees_mpi.arrays import Floats, Singles, doubles
from ees_mpi.errors import ConfigError, PluginError, located
from ees_mpi.generation import Outcome
from ees_mpi.registry import key
from ees_mpi.registry.plugins import Guard, calling, make_once
from ees_mpi.tasks.base import Task
from ees_mpi.tasks.keys import Axes, Deterministic, OnError, ResetSeed, RolloutCount, Share, StartsOrNone, place_numbers
from ees_mpi.tasks.rollouts import BatchRollouts, Drawable, Limbed, Rollouts, View, Walker

KEY = "task.function"


def member(name: str, kind: type, *default: Any) -> property:
    """Return a property with the value of a member of the user's task; without a default the task must have it."""
    return property(lambda self: self.read(name, kind, *default))


class CustomTask(Task, frozen=True):
    """A class that a user writes."""

    function: Annotated[str, key("The class of the task, as package.module:Task.")]
    settings: Annotated[dict[str, Any], key("The keyword arguments of the class.")] = {}  # noqa: RUF012  (msgspec copies it)
    deterministic: Deterministic = True
    on_error: OnError = "stop"
    rollouts: RolloutCount = 1
    starts: StartsOrNone = None
    reset_seed: ResetSeed = None
    place: Axes = msgspec.field(default=None, name="axes")
    observation_share: Annotated[
        Share, key("The share of rollouts that feed the normaliser; at least ten, if not set.", "share")
    ] = 0.01

    @property
    def task(self) -> Any:
        """Return the user's task, which is made once."""
        return make_once(self.function, KEY, "parameters behavior_dim initial open", self.settings)

    parameters = member("parameters", int)
    behavior_dim = member("behavior_dim", int)
    observation_dim = member("observation_dim", int, 0)
    layers = member("layers", tuple, ())
    steps = member("steps", int, 1)
    device = member("device", str, "cpu")
    sizes_known = begins_at_origin = False

    def axes_of(self, behavior_dim: int) -> int:
        return place_numbers(self.place, behavior_dim)

    def read(self, name: str, kind: type, *default: Any) -> Any:
        """Return the value of a member of the user's task, or the default."""
        with calling(self.own_code, name):
            return kind(getattr(self.task, name, *default))

    def observing(self, share: float) -> Self:
        """Return the task with a larger share, if about ten rollouts need it."""
        return msgspec.structs.replace(self, observation_share=max(self.observation_share, share))

    @property
    def walkable(self) -> bool:
        return callable(getattr(self.task, "walker", None))

    @property
    def label(self) -> str:
        return self.function

    @property
    def own_code(self) -> str:
        return f"{KEY} {self.function}"

    def lacks_for_gpu(self) -> str:
        """Return the reason why the user's task cannot be evaluated on a GPU; empty: it can."""
        return "" if hasattr(self.task, "open_batches") else f"{self.function} has no open_batches"

    def open_batches(
        self, seed: int, noise: Singles, wanted: int, antithetic: bool, say: Callable[[str], None]
    ) -> BatchRollouts:
        """Return the user's batch evaluator."""
        return Guard(self.task.open_batches(self.start_seed(seed), noise, wanted, antithetic, say), self.own_code)

    def walker(self, seed: int) -> Walker | None:
        return Guard(self.task.walker(self.start_seed(seed)), self.own_code) if self.walkable else None

    def film(self, seed: int, view: View) -> Drawable | Limbed | None:
        """Return the user's evaluator that can be filmed, if the task has `film`."""
        drawable = self.task.film(self.start_seed(seed), view) if hasattr(self.task, "film") else None
        return None if drawable is None else self._evaluator(drawable, lambda seed: self.task.film(seed, view))

    def initial(self, generator: np.random.Generator) -> Singles:
        with calling(self.own_code, "initial()"):
            return np.asarray(self.task.initial(generator), np.float32)

    def open(self, seed: int) -> Rollouts:
        return self._evaluator(self.task.open(self.start_seed(seed)), self.task.open)

    def check(self) -> None:
        """Read the members that a run needs, and evaluate one individual."""
        _ = self.device
        place_numbers(self.axes, self.behavior_dim)
        start = self.initial(np.random.default_rng(0))
        if start.shape != (self.parameters,):
            raise ConfigError(f"{self.own_code}: initial() has shape {start.shape}; expected ({self.parameters},)")
        evaluator, size = self.open(0), self.observation_dim
        evaluator.evaluate(0, start, np.zeros(size), np.ones(size), False)
        evaluator.close()

    def _evaluator(self, evaluator: Any, again: Callable[[int], Any]) -> "PluginEvaluator":
        if lacks := [name for name in ("evaluate", "close") if not hasattr(evaluator, name)]:
            expected = f"expected an evaluator with evaluate and close; {type(evaluator).__name__} has no {lacks[0]}"
            raise ConfigError(f"{self.own_code}: open(): {expected}")
        return PluginEvaluator(evaluator, self.own_code, self.behavior_dim, again)


class PluginEvaluator(Guard):
    """An evaluator of the user; an error in it names the individual. Its outcomes are checked."""

    def __init__(self, evaluator: Any, code: str, behavior_dim: int, again: Callable[[int], Any]):
        """Wrap an evaluator; `again`: makes another one, from a seed."""
        super().__init__(evaluator, code)
        self.__dict__.update(_expected=behavior_dim, _again=again)

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
        expected = f"expected ees_mpi.generation.Outcome with ({self._expected},)"
        with located(f"individual {index}"):
            with calling(self._code, "evaluate()"):
                outcome = self._thing.evaluate(index, parameters, observation_mean, observation_std, observe)
            try:
                number, length = _number(outcome.index, "index"), _number(outcome.length, "length")
                if _number(outcome.valid, "valid"):
                    _number(outcome.fitness, "fitness")
                    shape = doubles(outcome.behavior).shape
                else:
                    shape = np.shape(outcome.behavior)
            except Exception as error:  # of a sequence, tensor or array of the user
                returned = f"evaluate() returned {type(outcome).__name__}; {expected}: {error}"
                raise PluginError(f"{self._code}: {returned}") from None
            if shape != (self._expected,) or not isinstance(outcome, Outcome):
                raise PluginError(
                    f"{self._code}: evaluate() returned {type(outcome).__name__} with a behaviour of shape {shape}; "
                    f"{expected}"
                )
            if number != index or not 0 <= length < 2**31:
                got = f"index {outcome.index} and length {outcome.length}; expected index {index}"
                raise PluginError(f"{self._code}: evaluate() returned {got} and a length of 0 or more")
        return outcome


def _number(value: Any, name: str) -> Any:
    """Return a number of an outcome, which may be an array without axes; raise a ValueError if it is none."""
    if isinstance(value, (int, float, np.integer, np.floating, np.bool_)):
        return float(value)
    if value is None or (array := doubles(value)).shape:
        raise ValueError(f"expected a number as {name}, got {value!r:.80}")
    return array
