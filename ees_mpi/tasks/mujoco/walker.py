"""A robot in MuJoCo on the CPU, with the same bits every time."""

import math

import numpy as np

from ees_mpi.arrays import Floats, Singles
from ees_mpi.tasks.locomotion import FASTEST, FASTEST_COORDINATE
from ees_mpi.tasks.mujoco.robot_model import RobotModel, library


class MujocoWalker:
    """A robot that is controlled step by step, from the same start every time."""

    def __init__(self, robot_model: RobotModel, terminates: bool, seed: int):
        self._mujoco = mujoco = library()
        self.robot_model, self.data = robot_model, mujoco.MjData(robot_model.model)
        self.robot, self._start = robot_model.one(self.data), robot_model.start(seed)
        kinds = ("mjWARN_BADQPOS", "mjWARN_BADQVEL", "mjWARN_BADQACC", "mjWARN_BADCTRL")
        self._warnings = [getattr(mujoco.mjtWarning, kind) for kind in kinds]
        self._height = robot_model.height if terminates else None
        # Views of MuJoCo's memory, looked up once because each lookup costs a microsecond.
        self._qpos, self._qvel, self._ctrl = self.data.qpos, self.data.qvel, self.data.ctrl
        self._longest, self._fastest = FASTEST * robot_model.step_seconds, FASTEST_COORDINATE**2
        self._sound, self._place = True, self.robot.position()
        self.step_seconds = robot_model.step_seconds

    @property
    def position(self) -> tuple[float, ...]:
        """Return the present position, along the axes of the behaviour; NaN after unstable physics."""
        return tuple(self._place) if self.finite else (math.nan,) * len(self._place)

    @property
    def finite(self) -> bool:
        """Return whether the state is finite and possible, and MuJoCo has not reset the robot."""
        if not self._sound or any(self.data.warning[kind].number for kind in self._warnings):
            return False
        return bool(np.isfinite(self._qpos).all() and np.isfinite(self._qvel).all())

    def reseed(self, seed: int) -> None:
        self._start = self.robot_model.start(seed)

    def reset(self) -> Singles:
        """Return to the start and observe; the warm start of the solver is reset, too."""
        self._mujoco.mj_resetData(self.robot_model.model, self.data)
        self._qpos[:], self._qvel[:] = self._start
        self.robot.reset()
        self._sound, self._place = True, self.robot.position()
        return self.robot.observation()

    def step(self, action: Singles) -> tuple[Singles, bool]:
        np.maximum(np.minimum(action, self.robot_model.high), self.robot_model.low, out=self._ctrl)
        self.robot.step()
        before, self._place = self._place, self.robot.position()
        if not self._qvel.dot(self._qvel) <= self._fastest:  # faster than any robot can be, or NaN
            self._sound = False
        for one, other in zip(before, self._place, strict=True):
            if not -self._longest <= one - other <= self._longest:
                self._sound = False
        fallen = self._height is not None and not self._height[0] <= self._qpos[2] <= self._height[1]
        return self.robot.observation(), fallen or not self._sound

    def limbs(self) -> Floats:
        """Return the limbs of the robot; shapes that are neither capsules nor cylinders are drawn as balls."""
        model, kinds = self.robot_model.model, self._mujoco.mjtGeom
        drawn = np.flatnonzero((model.geom_bodyid > 0) & (model.geom_type >= int(kinds.mjGEOM_SPHERE)))
        long = np.isin(model.geom_type[drawn], [int(kinds.mjGEOM_CAPSULE), int(kinds.mjGEOM_CYLINDER)])
        size, axis = model.geom_size[drawn], self.data.geom_xmat[drawn].reshape(-1, 3, 3)[:, :, 2]
        half = np.where(long, size[:, 1], 0.0)[:, None] * axis
        radius = np.where(long | (size[:, 1] == 0), size[:, 0], size.mean(axis=1))
        middle = self.data.geom_xpos[drawn]
        return np.concatenate([middle - half, middle + half, radius[:, None]], axis=1)

    def close(self) -> None:
        """Do nothing: Python releases the memory of MuJoCo."""
