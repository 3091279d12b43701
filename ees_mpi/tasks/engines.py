"""Walking robots that one of several engines makes. An engine is imported only when a robot is made."""

from typing import Protocol

from ees_mpi.contracts import BatchEvaluator, Drawable, NoisyWalks, Say, View
from ees_mpi.outcomes import Floats, Singles
from ees_mpi.tasks.base import RolloutCount, Starts
from ees_mpi.tasks.locomotion import CheckedWalker, Rollouts, WalkingTask


class LimbedWalker(CheckedWalker, Protocol):
    """A robot of an engine; see `contracts.Limbed`."""

    @property
    def step_seconds(self) -> float: ...
    def limbs(self) -> Floats: ...


class RobotRollouts(Rollouts):
    """Rollouts of a robot whose limbs can be drawn."""

    def __init__(self, task: WalkingTask, robot: LimbedWalker):
        super().__init__(task, robot)
        self.step_seconds, self.limbs = robot.step_seconds, robot.limbs


class Engine(Protocol):
    """Makes the robot of a task. The last two methods are called only if `lacks_for_gpu` returns nothing."""

    def check(self) -> None: ...  # raises MissingExtra or ConfigError if the engine cannot work
    def walker(self, seed: int) -> LimbedWalker: ...
    def film(self, seed: int, view: View) -> Drawable: ...
    def lacks_for_gpu(self) -> str: ...
    def open_batches(self, seed: int, noise: Singles, wanted: int, antithetic: bool, say: Say) -> BatchEvaluator: ...
    def open_walks(self, seed: int, policies: int, rollouts: int, steps: int, say: Say) -> NoisyWalks: ...


class EngineTask(WalkingTask, frozen=True):
    """A robot of an engine. A subclass also defines `_engine`."""

    rollouts: RolloutCount = 1
    starts: Starts = "fixed"

    def _engine(self) -> Engine:
        raise NotImplementedError

    def check(self) -> None:
        """Raise MissingExtra if the engine is missing, or a ConfigError if the robot or the network cannot work."""
        self._engine().check()
        super().check()

    def open(self, seed: int) -> RobotRollouts:
        return RobotRollouts(self, self.walker(seed))

    def walker(self, seed: int) -> LimbedWalker:
        """Return the robot on the CPU, controlled step by step."""
        return self._engine().walker(self.start_seed(seed))

    def film(self, seed: int, view: View) -> Drawable:
        """Return rollouts of the robot on the CPU in front of a camera."""
        return self._engine().film(self.start_seed(seed), view)

    def lacks_for_gpu(self) -> str:
        return self._engine().lacks_for_gpu()

    def open_batches(self, seed: int, noise: Singles, wanted: int, antithetic: bool, say: Say) -> BatchEvaluator:
        """Return rollouts on the first visible GPU, for `wanted` individuals or as many as fit into its memory."""
        return self._engine().open_batches(self.start_seed(seed), noise, wanted, antithetic, say)

    def open_walks(self, seed: int, policies: int, rollouts: int, steps: int, say: Say) -> NoisyWalks:
        """Return robots on the first visible GPU that walk with noisy actions, `rollouts` of each policy."""
        return self._engine().open_walks(self.start_seed(seed), policies, rollouts, steps, say)
