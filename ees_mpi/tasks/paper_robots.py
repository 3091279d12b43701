"""The paper's walking tasks, `cheetah` and `ant`, on one of two engines: the behaviour is the final position.

Gajewski et al. 2019, sections 5.2 and 5.3. `behavior_steps` adds the positions at other steps (supplement S1.2).

    bullet   the paper's physics: on CPUs, with the bits of the ready-made environments
    mujoco   the same robots rebuilt in MuJoCo with the numbers that Bullet uses ("Bullet replica"): on CPUs or a GPU

An engine is imported only when a robot is made, so that a config can be read without either.
"""

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal, Protocol

import msgspec

from ees_mpi.contracts import BatchEvaluator, Drawable, NoisyWalks, View
from ees_mpi.outcomes import Singles
from ees_mpi.registry import key, loaded
from ees_mpi.tasks.locomotion import Robot, Rollouts, WalkingTask

ENGINES = {
    "bullet": "ees_mpi.tasks.bullet.engine:BulletEngine",
    "mujoco": "ees_mpi.tasks.mujoco.replica.engine:replica_engine",
}
ENGINE_LABELS = {"bullet": "Bullet", "mujoco": "Bullet replica in MuJoCo"}


class Engine(Protocol):
    """Makes the robot of a task in one engine."""

    def check(self) -> None: ...  # raises MissingExtra or ConfigError if the engine cannot work
    def walker(self, seed: int) -> Robot: ...
    def film(self, seed: int, view: View) -> Drawable: ...
    def lacks_for_gpu(self) -> str: ...
    def open_batches(
        self, seed: int, noise: Singles, wanted: int, antithetic: bool, say: Callable[[str], None]
    ) -> BatchEvaluator: ...
    def open_walks(
        self, seed: int, policies: int, rollouts: int, steps: int, say: Callable[[str], None]
    ) -> NoisyWalks: ...


class PaperRobot(WalkingTask, frozen=True):
    """A robot of the paper."""

    engine: Annotated[
        Literal["bullet", "mujoco"], key("The physics: the paper's (bullet), or its replica in MuJoCo, also for GPUs.")
    ] = "bullet"
    device: Annotated[
        Literal["auto", "cpu", "cuda"] | None,
        key("Where rollouts of engine mujoco run; auto, also if not set: on a GPU if there is one."),
    ] = None

    only_with = {"device": ("engine", "mujoco")}  # noqa: RUF012
    robot: ClassVar[str]
    sizes: ClassVar[tuple[int, int]]  # observations, actions
    axes: ClassVar[int]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.engine == "mujoco" and self.device is None:
            msgspec.structs.force_setattr(self, "device", "auto")
        elif self.engine == "bullet" and self.device is not None:
            raise ValueError('task.device: engine "bullet" runs on CPUs only; leave it out, or set engine = "mujoco"')

    @property
    def layers(self) -> tuple[int, ...]:
        return (self.sizes[0], *self.hidden, self.sizes[1])

    def check(self) -> None:
        """Raise MissingExtra if the engine is missing, or a ConfigError if the user's own network cannot act."""
        self._engine().check()
        super().check()

    def open(self, seed: int) -> Rollouts:
        """Return rollouts of the robot on the CPU."""
        return Rollouts(self, self.walker(seed))

    def walker(self, seed: int) -> Robot:
        """Return the robot on the CPU, controlled step by step."""
        return self._engine().walker(self.start_seed(seed))

    def film(self, seed: int, view: View) -> Drawable:
        """Return rollouts of the robot on the CPU in front of a camera."""
        return self._engine().film(self.start_seed(seed), view)

    def lacks_for_gpu(self) -> str:
        """Return what this process lacks for a GPU; empty: nothing. Imports no torch."""
        return self._engine().lacks_for_gpu()

    def open_batches(
        self, seed: int, noise: Singles, wanted: int, antithetic: bool, say: Callable[[str], None]
    ) -> BatchEvaluator:
        """Return rollouts on the first visible GPU, for `wanted` individuals or as many as fit into its memory."""
        return self._engine().open_batches(self.start_seed(seed), noise, wanted, antithetic, say)

    def open_walks(self, seed: int, policies: int, rollouts: int, steps: int, say: Callable[[str], None]) -> NoisyWalks:
        """Return robots on the first visible GPU that walk with noisy actions, `rollouts` of each policy."""
        return self._engine().open_walks(self.start_seed(seed), policies, rollouts, steps, say)

    def _engine(self) -> Engine:
        engine: Engine = loaded(ENGINES[self.engine])(self)
        return engine


class Cheetah(PaperRobot, frozen=True):
    """The half cheetah: its behaviour is the final x."""

    robot = "cheetah"
    sizes = (26, 6)
    axes = 1


class Ant(PaperRobot, frozen=True):
    """The ant: its behaviour is the final x and y."""

    robot = "ant"
    sizes = (28, 8)
    axes = 2
