"""An optimizer that a user writes: `optimizer.function = "package.module:Optimizer"`."""

from typing import Annotated, Any

import numpy as np

from ees_mpi.arrays import Arrays, readonly
from ees_mpi.registry import key
from ees_mpi.registry.plugins import as_table, like, make_once
from ees_mpi.strategy.optimizers.base import Optimizer


class CustomOptimizer(Optimizer, frozen=True):
    """An optimizer that a user writes: `Optimizer(**settings)` has the members of `base.OptimizerPlugin`."""

    function: Annotated[str, key("The class of the optimizer, as package.module:Optimizer.")]
    settings: Annotated[dict[str, Any], key("The arguments of the class, by name.")] = {}  # noqa: RUF012

    @property
    def optimizer(self) -> Any:
        return make_once(self.function, "optimizer.function", "start step", self.settings)

    def check(self) -> None:
        """Raise a ConfigError if the user's class cannot be made, or lacks a member."""
        _ = self.optimizer

    def try_out(self, learned: Arrays) -> None:
        """Make two steps along small gradients, and check what they return."""
        moments = self.start(learned)
        for _ in range(2):
            gradient = {name: np.full(array.shape, 0.01) for name, array in learned.items()}
            learned, moments = self.step(learned, gradient, moments)

    def start(self, learned: Arrays) -> Arrays:
        return as_table(self.optimizer.start(readonly(learned)), f"{self._code}: start()")

    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays) -> tuple[Arrays, Arrays]:
        result = self.optimizer.step(readonly(learned), gradient, readonly(moments))
        following, grown = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
        return (
            like(following, learned, f"{self._code}: step() as the learned arrays", np.float32),
            like(grown, moments, f"{self._code}: step() as the moments"),
        )

    @property
    def _code(self) -> str:
        return f"optimizer.function {self.function}"
