"""Optimizers: plain ascent, Adam, the user's own, and `trust`. They move each learned array of a population.

Ascent and Adam ascend along `gradient - l2 * theta`.

The array `std` holds standard deviations: its gradient is that of its logarithm, the step multiplies it, its learning
rate is `std_lr`, and L2 does not apply to it.

Learned arrays are single precision. Moments and all arithmetic are double precision. The moments of the mean have plain
names ("first"). The moments of another learned array begin with its name ("std/first").
"""

from typing import Annotated, Any

import msgspec
import numpy as np

from ees_mpi.outcomes import Arrays, Floats, Singles
from ees_mpi.registry import Family, Part, key, loaded
from ees_mpi.registry.own import make_once
from ees_mpi.registry.own_arrays import as_table, like, readonly

Rate = Annotated[float, key("The learning rate.", gt=0)]
Decay = Annotated[float, key("L2 decay: `l2` times the parameters is subtracted from the gradient.", ge=0)]
StdRate = Annotated[
    Annotated[float, msgspec.Meta(gt=0)] | None,
    key("The learning rate of the log std, if the population learns it; not set: lr."),
]

OPTIMIZERS = Family(
    "optimizer",
    {
        "ascent": "ees_mpi.optimizers:Ascent",
        "adam": "ees_mpi.optimizers:Adam",
        "trust": "ees_mpi.optimizers.trust:Trust",
        "custom": "ees_mpi.optimizers:Custom",
    },
    default="adam",
)
MOMENTS = ("first", "second")
quietly = np.errstate(over="ignore", invalid="ignore")  # `training.train` refuses a step that is not finite


class Ascent(Part, frozen=True):
    """Plain gradient ascent: theta + lr * gradient."""

    lr: Rate = 0.01
    l2: Decay = 0.0
    std_lr: StdRate = None

    def start(self, learned: Arrays) -> Arrays:
        """Return the moments before the first step: none."""
        return {}

    @quietly
    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays, std: float = 1.0) -> tuple[Arrays, Arrays]:
        """Return the next learned arrays and moments."""
        following = {}
        for name, theta in learned.items():
            rate, l2 = _rates(self, name)
            slope = gradient[name] - l2 * theta.astype(np.float64)
            following[name] = moved(name, theta, rate * slope)
        return following, moments


class Adam(Part, frozen=True):
    """Adam (Kingma and Ba 2015, arXiv:1412.6980) with the defaults of torch, as ascent."""

    lr: Rate = 0.01
    l2: Decay = 0.0
    beta1: Annotated[float, key("The decay of the running mean of gradients.", ge=0, lt=1)] = 0.9
    beta2: Annotated[float, key("The decay of the running mean of squared gradients.", ge=0, lt=1)] = 0.999
    epsilon: Annotated[float, key("Is added to the root of the mean square, so that it is never 0.", gt=0)] = 1e-8
    std_lr: StdRate = None
    correct_first: Annotated[
        bool,
        key(
            "Whether the bias of the running mean of gradients is corrected. `train --from` writes false if it is not "
            "set: the first step is then a tenth as long, and does not destroy what the mean has learned."
        ),
    ] = True

    def start(self, learned: Arrays) -> Arrays:
        """Return the moments before the first step."""
        zeros = {f"{prefix(name)}{moment}": np.zeros(learned[name].shape) for name in learned for moment in MOMENTS}
        return {**zeros, "steps": np.array(0)}

    @quietly
    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays, std: float = 1.0) -> tuple[Arrays, Arrays]:
        """Return the next learned arrays and moments."""
        steps = int(moments["steps"]) + 1
        following, grown = {}, {"steps": np.array(steps)}
        for name, theta in learned.items():
            rate, l2 = _rates(self, name)
            size = rate / (1 - self.beta1**steps) if self.correct_first else rate
            slope = gradient[name] - l2 * theta.astype(np.float64)
            before = [moments[f"{prefix(name)}{moment}"] for moment in MOMENTS]
            first = self.beta1 * before[0] + (1 - self.beta1) * slope
            second = self.beta2 * before[1] + (1 - self.beta2) * slope * slope
            scale = np.sqrt(second) / np.sqrt(1 - self.beta2**steps) + self.epsilon
            following[name] = moved(name, theta, size * (first / scale))
            grown |= {f"{prefix(name)}first": first, f"{prefix(name)}second": second}
        return following, grown


class Custom(Part, frozen=True):
    """An optimizer that a user writes: `Optimizer(**settings)` has the members of `contracts.OwnOptimizer`."""

    function: Annotated[str, key("The class of the optimizer, as package.module:Optimizer.")]
    settings: Annotated[dict[str, Any], key("The arguments of the class, by name.")] = {}  # noqa: RUF012

    @property
    def optimizer(self) -> Any:
        """Return the user's optimizer, which is made once."""
        protocol = loaded("ees_mpi.contracts:OwnOptimizer")
        return make_once(self.function, "optimizer.function", protocol, self.settings)

    def check(self) -> None:
        """Raise a ConfigError if the user's class cannot be made, or lacks a member."""
        _ = self.optimizer

    def rehearse(self, learned: Arrays) -> None:
        """Make two steps along small gradients, and check what they return."""
        moments = self.start(learned)
        for _ in range(2):
            gradient = {name: np.full(array.shape, 0.01) for name, array in learned.items()}
            learned, moments = self.step(learned, gradient, moments)

    def start(self, learned: Arrays) -> Arrays:
        """Return the moments before the first step."""
        return as_table(self.optimizer.start(readonly(learned)), f"{self._code}: start()")

    def step(self, learned: Arrays, gradient: Arrays, moments: Arrays, std: float = 1.0) -> tuple[Arrays, Arrays]:
        """Return the next learned arrays and moments."""
        found = self.optimizer.step(readonly(learned), gradient, readonly(moments))
        following, grown = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
        return (
            like(following, learned, f"{self._code}: step() as the learned arrays", np.float32),
            like(grown, moments, f"{self._code}: step() as the moments"),
        )

    @property
    def _code(self) -> str:
        return f"optimizer.function {self.function}"


def _rates(optimizer: Ascent | Adam, name: str) -> tuple[float, float]:
    """Return the learning rate and the L2 coefficient of a learned array."""
    return (optimizer.std_lr or optimizer.lr, 0.0) if name == "std" else (optimizer.lr, optimizer.l2)


def moved(name: str, theta: Singles, step: Floats) -> Singles:
    """Return a learned array after a step; the step of `std` is one of its logarithm."""
    wide = theta.astype(np.float64)
    with np.errstate(over="ignore"):  # training refuses an update that is not finite
        moved: Singles = (wide * np.exp(step) if name == "std" else wide + step).astype(np.float32)
    return moved


def prefix(name: str) -> str:
    """Return the beginning of the names of the moments of a learned array."""
    return "" if name == "mean" else f"{name}/"
