"""A task of the user's own: `task.function = "package.module:Task"`.

`Task(**settings)` must have what `ees_mpi.tasks.Task` lists: `parameters`, `behavior_dim`, `initial(generator)`, and
`open(seed)`, which returns an object with `evaluate(index, parameters, observation_mean, observation_std, observe)` and
`close()`. `observation_dim` and `observation_share` are 0 where they are left out. See `jobs/own_task.py`. One that has
`film(seed, view)`, too (`ees_mpi.tasks.filming`), can be filmed by `ees-mpi replay`.

To be learned by MAML it also needs `layers`, `steps` and `walker(seed)`, which returns an `ees_mpi.tasks.Walker`.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from ees_mpi.errors import ConfigError
from ees_mpi.outcomes import Outcome, Singles
from ees_mpi.registry import Part, imported
from ees_mpi.tasks import Evaluator, Walker

NEEDED = ("parameters", "behavior_dim", "initial", "open")


class Custom(Part, frozen=True):
    """A task that lies outside this package; `settings`: its keyword arguments."""

    function: str
    settings: dict[str, Any] = {}  # noqa: RUF012  (msgspec copies it)

    @property
    def task(self) -> Any:
        """The user's task, made once."""
        return _made(self)

    @property
    def parameters(self) -> int:
        """The length of an individual."""
        return int(self.task.parameters)

    @property
    def behavior_dim(self) -> int:
        """How many numbers a behaviour has."""
        return int(self.task.behavior_dim)

    @property
    def observation_dim(self) -> int:
        """How many observations are normalised."""
        return int(getattr(self.task, "observation_dim", 0))

    @property
    def observation_share(self) -> float:
        """The share of rollouts that feed the statistics."""
        return float(getattr(self.task, "observation_share", 0.0))

    @property
    def layers(self) -> tuple[int, ...]:
        """The sizes of the policy's layers, where the user's task has a policy."""
        return tuple(self.task.layers)

    @property
    def steps(self) -> int:
        """How long a rollout is, where the user's task has a policy."""
        return int(self.task.steps)

    @property
    def walker(self) -> Callable[[int], Walker] | None:
        """Make what is led step by step, where the user's task has it."""
        found: Callable[[int], Walker] | None = getattr(self.task, "walker", None)
        return found

    def initial(self, generator: np.random.Generator) -> Singles:
        """Draw the first mean."""
        return np.asarray(self.task.initial(generator), np.float32)

    def open(self, seed: int) -> Evaluator:
        """Return the user's evaluator."""
        evaluator: Evaluator = self.task.open(seed)
        return evaluator

    def check(self) -> None:
        """Evaluate one individual and look at what comes back."""
        start = self.initial(np.random.default_rng(0))
        if start.shape != (self.parameters,):
            raise self._wrong(f"initial() has shape {start.shape}", f"({self.parameters},)")
        evaluator, size = self.open(0), self.observation_dim
        outcome = evaluator.evaluate(0, start, np.zeros(size), np.ones(size), False)
        evaluator.close()
        if not isinstance(outcome, Outcome):
            raise self._wrong(f"evaluate() returned {outcome!r}", "an ees_mpi.outcomes.Outcome")
        try:
            behavior = np.asarray(outcome.behavior, np.float64)
        except (TypeError, ValueError):
            behavior = np.empty((0, 0))
        if behavior.shape != (self.behavior_dim,):
            raise self._wrong(f"a behavior is {outcome.behavior!r}", f"{self.behavior_dim} numbers in a flat sequence")

    def _wrong(self, came: str, expected: str) -> ConfigError:
        return ConfigError(f"task.function {self.function}: {came}; expected {expected}")


_MADE: dict[bytes, Any] = {}


def _made(custom: Custom) -> Any:
    key = msgspec.json.encode(custom)
    if key not in _MADE:
        _MADE[key] = _make(custom.function, custom.settings)
    return _MADE[key]


def _make(function: str, settings: dict[str, Any]) -> Any:
    factory = imported(function, "task.function")
    try:
        task = factory(**settings)
    except TypeError as error:
        raise ConfigError(f"task.function {function} cannot be made: {error}") from None
    missing = [name for name in NEEDED if not hasattr(task, name)]
    if missing:
        raise ConfigError(f"task.function {function}: expected an object with {', '.join(NEEDED)}; no {missing[0]}")
    return task
