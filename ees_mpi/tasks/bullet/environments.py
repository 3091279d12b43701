"""The cheetah and the ant as Gymnasium environments; the rewards have the bits of the ready-made environments."""

from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

import ees_mpi.tasks.bullet.registration  # noqa: F401  (so that gymnasium.make finds them by name)
from ees_mpi.tasks.bullet.robots import CLIP, TARGET_X, BulletAnt, BulletCheetah, Robot
from ees_mpi.tasks.bullet.world import TIME_STEP

ELECTRICITY_COST = -2.0
STALL_TORQUE_COST = -0.1
JOINT_AT_LIMIT_COST = -0.1
LIMIT = 0.99

Observation = NDArray[np.float32]


class BulletEnv(gymnasium.Env[Observation, NDArray[Any]]):
    """A robot that is rewarded for walking along x and for staying upright, and pays for the use of its motors.

    All episodes start from the same restored state. In a ready-made environment the first episode differs.
    """

    metadata = {"render_modes": [], "render_fps": round(1 / TIME_STEP)}  # noqa: RUF012
    robot_class: ClassVar[type[Robot]]

    def __init__(self) -> None:
        self.robot = self.robot_class()
        self.observation_space = gymnasium.spaces.Box(-CLIP, CLIP, (self.robot.observation_size,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (self.robot.action_size,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; without a seed the random generator of the environment continues."""
        super().reset(seed=seed)
        observation = self.robot.reset(self.np_random)
        self._potential = self._measure_potential()
        return observation, self._info()

    def step(self, action: NDArray[Any]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Move the robot for one time step; truncation is left to Gymnasium's TimeLimit."""
        action = np.asarray(action)
        observation, done = self.robot.step(action)
        return observation, self._reward(action), done, False, self._info()

    def close(self) -> None:
        self.robot.close()

    def _reward(self, action: NDArray[Any]) -> float:
        """Return the sum of the rewards and costs of the last step."""
        before, self._potential = self._potential, self._measure_potential()
        electricity = ELECTRICITY_COST * float(np.abs(action * self.robot.joint_speeds).mean())
        electricity += STALL_TORQUE_COST * float(np.square(action).mean())
        at_limit = int(np.count_nonzero(np.abs(self.robot.joint_positions) > LIMIT))
        alive, progress = 1.0 if self.robot.alive else -1.0, self._potential - before
        return sum([alive, progress, electricity, JOINT_AT_LIMIT_COST * at_limit])

    def _measure_potential(self) -> float:
        """Return minus the distance to the target, in units of distance per time step."""
        x, y, _ = self.robot.position
        return float(-np.linalg.norm([0.0 - y, TARGET_X - x]) / TIME_STEP)

    def _info(self) -> dict[str, Any]:
        x, y, z = self.robot.position
        return {"x_position": x, "y_position": y, "z_position": z}


class HalfCheetahBulletEnv(BulletEnv):
    """The half cheetah: 26 observations, 6 actions; it never ends an episode."""

    robot_class = BulletCheetah


class AntBulletEnv(BulletEnv):
    """The ant: 28 observations, 8 actions; an episode ends when the torso is too low."""

    robot_class = BulletAnt
