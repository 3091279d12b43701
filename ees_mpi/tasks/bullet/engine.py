"""The paper's robots in Bullet, one at a time on the CPU."""

import math

import numpy as np

from ees_mpi.arrays import Singles
from ees_mpi.tasks.bullet.robots import BulletAnt, BulletCheetah, Robot
from ees_mpi.tasks.bullet.world import TIME_STEP
from ees_mpi.tasks.paper_robots import PaperRobot

ROBOTS: dict[str, type[Robot]] = {"cheetah": BulletCheetah, "ant": BulletAnt}


class BulletEngine:
    """Makes the robot of a task; importing this module imports pybullet."""

    def __init__(self, task: PaperRobot):
        self._task = task

    def check(self) -> None:
        """Do nothing: pybullet was imported."""

    def walker(self, seed: int) -> "BulletWalker":
        """Return the robot in its own physics client, controlled step by step."""
        return BulletWalker(self._task, seed)

    def lacks_for_gpu(self) -> str:
        """Return the reason why Bullet does not run on a GPU."""
        return 'engine "bullet" runs on CPUs only'


class BulletWalker:
    """A robot that is controlled step by step, from the same start every time."""

    step_seconds = TIME_STEP

    def __init__(self, task: PaperRobot, seed: int):
        self.robot, self._seed, self._axes = ROBOTS[task.robot](), seed, task.axes
        self._stops = task.terminate == "environment"
        self.limbs, self.close = self.robot.limbs, self.robot.close

    @property
    def position(self) -> tuple[float, ...]:
        """Return the present position, along the axes of the behaviour."""
        return self.robot.position[: self._axes]

    @property
    def finite(self) -> bool:
        """Return whether the physics is finite."""
        return self.robot.finite

    def reseed(self, seed: int) -> None:
        self._seed = seed

    def reset(self) -> Singles:
        return self.robot.reset(self._seed)

    def step(self, action: Singles) -> tuple[Singles, bool]:
        try:
            observation, done = self.robot.step(action)
        except FloatingPointError:  # the action is NaN
            self.robot.position = (math.nan, math.nan, math.nan)
            return np.full(self.robot.observation_size, np.nan, np.float32), True
        return observation, done and (self._stops or not self.robot.finite)
