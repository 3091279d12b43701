"""The paper's walking tasks on Bullet: the behaviour of a robot is its final position.

Gajewski et al. 2019, sections 5.2 and 5.3. `behavior_steps` adds the positions at other steps (supplement S1.2).
"""

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ees_mpi.contracts import Pixels, View
from ees_mpi.outcomes import Singles
from ees_mpi.registry import loaded
from ees_mpi.tasks.locomotion import Rollouts, WalkingTask

if TYPE_CHECKING:
    from ees_mpi.tasks.bullet.robot import Robot


class Locomotion(WalkingTask, frozen=True):
    """A Bullet robot."""

    sizes: ClassVar[tuple[int, int]]  # observations, actions
    axes: ClassVar[int]
    robot_class: ClassVar[str]  # as "module:name", because pybullet is imported only when a robot is made

    @property
    def layers(self) -> tuple[int, ...]:
        return (self.sizes[0], *self.hidden, self.sizes[1])

    def check(self) -> None:
        """Raise MissingExtra if pybullet is missing, or a ConfigError if the user's own network cannot act."""
        self.robot()
        super().check()

    def robot(self) -> "type[Robot]":
        """Return the class of the robot; this imports pybullet."""
        robot: type[Robot] = loaded(self.robot_class)
        return robot

    def open(self, seed: int) -> Rollouts:
        """Return rollouts of the robot, in their own physics client."""
        return Rollouts(self, self.walker(seed))

    def walker(self, seed: int) -> "RobotWalker":
        """Return the robot, controlled step by step."""
        return RobotWalker(self, self.start_seed(seed))

    def film(self, seed: int, view: View) -> "Filmed":
        """Return rollouts of the robot in front of a camera."""
        return Filmed(self, self.walker(seed), view)


class Cheetah(Locomotion, frozen=True):
    """The half cheetah: its behaviour is the final x."""

    sizes = (26, 6)
    axes = 1
    robot_class = "ees_mpi.tasks.bullet.robots:HalfCheetah"


class Ant(Locomotion, frozen=True):
    """The ant: its behaviour is the final x and y."""

    sizes = (28, 8)
    axes = 2
    robot_class = "ees_mpi.tasks.bullet.robots:Ant"


class RobotWalker:
    """A robot that is controlled step by step, from the same start every time."""

    def __init__(self, task: Locomotion, seed: int):
        self.robot, self._seed, self._axes = task.robot()(), seed, task.axes
        self._stops = task.terminate == "environment"

    @property
    def position(self) -> tuple[float, ...]:
        """Return the present position, along the axes of the behaviour."""
        return self.robot.position[: self._axes]

    @property
    def finite(self) -> bool:
        """Return whether the physics is finite."""
        return self.robot.finite

    def reset(self) -> Singles:
        """Return to the start and observe."""
        return self.robot.reset(self._seed)

    def step(self, action: Singles) -> tuple[Singles, bool]:
        """Act for one time step; return the observation and whether the rollout has ended."""
        try:
            observation, done = self.robot.step(action)
        except FloatingPointError:  # the action is NaN
            self.robot.mark_unstable()
            return np.full(self.robot.observation_size, np.nan, np.float32), True
        return observation, done and (self._stops or not self.robot.finite)

    def close(self) -> None:
        """Release the physics client."""
        self.robot.close()


class Filmed(Rollouts):
    """Rollouts with the same bits, in front of a camera."""

    def __init__(self, task: Locomotion, walker: RobotWalker, view: View):
        super().__init__(task, walker)
        from ees_mpi.tasks.bullet.camera import Camera
        from ees_mpi.tasks.bullet.world import TIME_STEP

        self._filmed, self._camera = walker.robot, Camera(view)
        self._last: Pixels | None = None
        self.step_seconds = TIME_STEP

    def picture(self) -> Pixels:
        """Draw the robot; after unstable physics it stays at its last finite position."""
        if self._last is None or self._filmed.finite:
            self._last = self._filmed.picture(self._camera)
        return self._last
