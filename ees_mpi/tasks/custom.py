"""A task that a user writes: `task.function = "package.module:Task"`.

`Task(**settings)` needs `parameters`, `behavior_dim`, `initial(generator)` and `open(seed)`, which returns an
`ees_mpi.contracts.Evaluator`. Optional: `observation_dim` and `observation_share` (0 by default), `axes`, `device` and
`open_batches` for GPUs (see `contracts.Task`), and `film(seed, view)`, so that `ees-mpi replay` can film it. MAML also
needs `layers`, `steps` and `walker(seed)`, which returns an `ees_mpi.contracts.Walker`. See `jobs/own_task.py`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ees_mpi.contracts import BatchEvaluator, Drawable, Evaluator, View, Walker
from ees_mpi.errors import ConfigError
from ees_mpi.outcomes import Outcome, Singles
from ees_mpi.registry import check_trust, imported
from ees_mpi.tasks.base import TaskPart, once

NEEDED = ("parameters", "behavior_dim", "initial", "open")
METHODS = ("initial", "open")  # a class has them before it is called


class Custom(TaskPart, frozen=True):
    """A task outside of this package; `settings`: its keyword arguments. Members are those of the user's task."""

    function: str
    settings: dict[str, Any] = {}  # noqa: RUF012  (msgspec copies it)
    behavior_steps: tuple[int, ...] | None = None  # given to the class as the keyword argument `behavior_steps`

    @property
    def task(self) -> Any:
        """Return the user's task, which is made once."""
        check_trust(self.function, "task.function")
        return once(self, self._make)

    @property
    def parameters(self) -> int:
        return int(self.task.parameters)

    @property
    def behavior_dim(self) -> int:
        return int(self.task.behavior_dim)

    @property
    def observation_dim(self) -> int:
        return int(getattr(self.task, "observation_dim", 0))

    @property
    def observation_share(self) -> float:
        return float(getattr(self.task, "observation_share", 0.0))

    @property
    def axes(self) -> int:
        return int(getattr(self.task, "axes", 0))

    @property
    def layers(self) -> tuple[int, ...]:
        return tuple(getattr(self.task, "layers", ()))

    @property
    def steps(self) -> int:
        return int(getattr(self.task, "steps", 1))

    @property
    def walkable(self) -> bool:
        return callable(getattr(self.task, "walker", None))

    @property
    def label(self) -> str:
        return self.function

    @property
    def device(self) -> str:
        return str(getattr(self.task, "device", "cpu"))

    def lacks_for_gpu(self) -> str:
        """Return the reason why the user's task cannot be evaluated on a GPU; empty: it can."""
        return "" if hasattr(self.task, "open_batches") else f"{self.function} has no open_batches"

    def open_batches(
        self, seed: int, noise: Singles, wanted: int, antithetic: bool, say: Callable[[str], None]
    ) -> BatchEvaluator:
        """Return the user's batch evaluator."""
        batches: BatchEvaluator = self.task.open_batches(seed, noise, wanted, antithetic, say)
        return batches

    def walker(self, seed: int) -> Walker | None:
        """Return the user's robot that is controlled step by step, if the task has `walker`."""
        walker: Walker | None = self.task.walker(seed) if self.walkable else None
        return walker

    def film(self, seed: int, view: View) -> Drawable | None:
        """Return the user's evaluator that can be filmed, if the task has `film`."""
        drawable: Drawable | None = self.task.film(seed, view) if hasattr(self.task, "film") else None
        return drawable

    def initial(self, generator: np.random.Generator) -> Singles:
        """Draw the first mean."""
        return np.asarray(self.task.initial(generator), np.float32)

    def open(self, seed: int) -> Evaluator:
        """Return the user's evaluator."""
        evaluator: Evaluator = self.task.open(seed)
        return evaluator

    def check(self) -> None:
        """Evaluate one individual and check its outcome."""
        start = self.initial(np.random.default_rng(0))
        if start.shape != (self.parameters,):
            raise self._error(f"initial() has shape {start.shape}; expected ({self.parameters},)")
        evaluator, size = self.open(0), self.observation_dim
        outcome = evaluator.evaluate(0, start, np.zeros(size), np.ones(size), False)
        evaluator.close()
        if not isinstance(outcome, Outcome):
            raise self._error(f"evaluate() returned {outcome!r}; expected an ees_mpi.outcomes.Outcome")
        try:
            behavior = np.asarray(outcome.behavior, np.float64)
        except (TypeError, ValueError):
            behavior = np.empty((0, 0))
        if behavior.shape != (self.behavior_dim,):
            expected = f"{self.behavior_dim} numbers in a flat sequence"
            raise self._error(f"a behavior is {outcome.behavior!r}; expected {expected}")

    def _make(self) -> Any:
        """Make the user's task; raise a ConfigError if a needed member is missing."""
        factory = imported(self.function, "task.function")
        if not isinstance(factory, type):
            raise self._error(f"expected a class with {', '.join(NEEDED)}; got {type(factory).__name__}")
        if lacking := [name for name in METHODS if not callable(getattr(factory, name, None))]:
            raise self._error(f"expected a class with {', '.join(NEEDED)}; no {lacking[0]}")
        marks = {} if self.behavior_steps is None else {"behavior_steps": self.behavior_steps}
        try:
            task = factory(**self.settings, **marks)
        except TypeError as error:
            raise ConfigError(f"task.function {self.function} cannot be made: {error}") from None
        missing = [name for name in NEEDED if not hasattr(task, name)]
        if missing:
            raise self._error(f"expected a class with {', '.join(NEEDED)}; no {missing[0]}")
        return task

    def _error(self, message: str) -> ConfigError:
        return ConfigError(f"task.function {self.function}: {message}")
