"""What a task opens: rollouts one after the other, several at once, on a GPU, for a film.

Letters in shapes: N individuals, B numbers of a behaviour, O observations, A actions, D parameters.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Floats, Singles
from ees_mpi.generation import Batch, Outcome

Pixels = NDArray[np.uint8]  # [height, width, 3]
Say = Callable[[str], None]  # prints a line for the user


class Closable(Protocol):
    """Holds resources, which `close` releases: a physics client, an environment, the memory of a GPU."""

    def close(self) -> None: ...


class Rollouts(Closable, Protocol):
    """Evaluates individuals, one at a time. The outcome depends on the arguments only, never on earlier rollouts."""

    def evaluate(
        self, index: int, parameters: Singles, observation_mean: Floats, observation_std: Floats, observe: bool
    ) -> Outcome:
        """Roll out one individual; `observe`: also return the sums of its observations."""


@runtime_checkable
class RowsRollouts(Rollouts, Protocol):
    """Evaluates several individuals in one call on a CPU. Their bits may depend on the other rows of the call.

    So the rows of a call are fixed by index: individuals k * rows to (k + 1) * rows - 1, and the mean alone.
    """

    rows: int  # individuals in a call, at most

    def evaluate_rows(self, index: Sequence[int], parameters: Singles) -> list[Outcome]:
        """Roll out individuals [n, D]; return their outcomes in this order."""


class BatchRollouts(Closable, Protocol):
    """Evaluates many individuals at once, on a GPU; see `Task.repeats_on_gpu`."""

    capacity: int  # individuals at once; a larger batch is evaluated in several passes

    def evaluate_batch(self, batch: Batch, observation_mean: Floats, observation_std: Floats) -> list[Outcome]:
        """Roll out all individuals of a batch; return their outcomes in the order of the batch."""


@dataclass(frozen=True)
class View:
    """The size of a film's pictures in pixels; robots, which return their limbs, do not need it."""

    width: int = 320
    height: int = 240


@runtime_checkable
class Placed(Rollouts, Protocol):
    """An evaluator that says where a rollout is, so that the trails of several rollouts can be drawn together."""

    on_step: Callable[[int], None] | None  # called with the number of finished steps, from 0 on
    step_seconds: float  # simulated seconds of one step

    def place(self) -> tuple[float, ...]:
        """Return the present position of the robot, as its behaviour counts it; empty if the task has none."""


class Drawable(Placed, Protocol):
    """An evaluator that draws itself: its outcomes have the same bits as those of `Task.open`."""

    def picture(self) -> Pixels:
        """Draw the present moment; its size may differ from the requested one."""


@runtime_checkable
class Limbed(Placed, Protocol):
    """An evaluator of a robot that returns its limbs. Robots are drawn from them, all in one scene."""

    def limbs(self) -> Floats:
        """Return the limbs at the present moment, [n, 7]: both ends of the axis of a capsule, and its radius."""


class Walker(Closable, Protocol):
    """A robot that is controlled step by step. MAML learns from it."""

    @property
    def position(self) -> Sequence[float]: ...  # [B]; the behaviour is the final position

    def reset(self) -> Singles:
        """Return to the start, always the same one, and observe."""

    def step(self, action: Singles) -> tuple[Singles, bool]:
        """Act for one time step; return the observation and whether the rollout has ended."""


@dataclass(frozen=True)
class Walked:
    """R rollouts of each of N policies, as torch tensors on one device; steps that were not taken are zero."""

    observations: Any  # [N, R, T, O], normalised and clipped
    actions: Any  # [N, R, T, A], before the robot clips them
    position: Any  # [N, R, 1 + T, B]: at the start, and after each step
    length: Any  # [N, R]
    sums: Any  # [N, 1 + 2 O]: count, sums, sums of squares of the observations of the sampled rollouts


class NoisyWalks(Closable, Protocol):
    """Robots on a GPU that walk with noisy actions, all at once. MAML learns from them."""

    device: str  # as torch names it

    def walk(
        self,
        parameters: Any,
        stds: Any,
        noise: Singles,
        sampled: NDArray[np.bool_],
        statistics: tuple[Floats, Floats],
    ) -> Walked:
        """Roll out policies [N, D] with action noise [N, R, T, A] times stds [N, A]; see `Walked` for the results.

        parameters, stds: on the device; sampled: [N, R]; statistics: mean and standard deviation of the observations
        """
