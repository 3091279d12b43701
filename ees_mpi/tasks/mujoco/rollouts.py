"""A robot in MuJoCo on the CPU, with the same bits every time."""

import math

import numpy as np

from ees_mpi.outcomes import Singles
from ees_mpi.tasks.locomotion import FASTEST, FASTEST_COORDINATE
from ees_mpi.tasks.mujoco.plant import Plant, library


class RobotWalker:
    """A robot that is controlled step by step, from the same start every time."""

    def __init__(self, plant: Plant, terminates: bool, seed: int):
        self._mujoco = mujoco = library()
        self.plant, self.data = plant, mujoco.MjData(plant.model)
        self.robot, self._start = plant.one(self.data), plant.start(seed)
        kinds = ("mjWARN_BADQPOS", "mjWARN_BADQVEL", "mjWARN_BADQACC", "mjWARN_BADCTRL")
        self._warnings = [getattr(mujoco.mjtWarning, kind) for kind in kinds]
        self._height = plant.height if terminates else None
        # Views of MuJoCo's memory, looked up once because each lookup costs a microsecond.
        self._qpos, self._qvel, self._ctrl = self.data.qpos, self.data.qvel, self.data.ctrl
        self._longest, self._fastest = FASTEST * plant.step_seconds, FASTEST_COORDINATE**2
        self._sound, self._place = True, self.robot.position()

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

    def reset(self) -> Singles:
        """Return to the start and observe; the warm start of the solver is reset, too."""
        self._mujoco.mj_resetData(self.plant.model, self.data)
        self._qpos[:], self._qvel[:] = self._start
        self.robot.reset()
        self._sound, self._place = True, self.robot.position()
        return self.robot.observation()

    def step(self, action: Singles) -> tuple[Singles, bool]:
        """Act for one time step; return the observation and whether the rollout has ended."""
        np.maximum(np.minimum(action, self.plant.high), self.plant.low, out=self._ctrl)
        self.robot.step()
        self._check_speeds()
        fallen = self._height is not None and not self._height[0] <= self._qpos[2] <= self._height[1]
        return self.robot.observation(), fallen or not self._sound

    def _check_speeds(self) -> None:
        """Note whether the last step was longer or faster than any robot can be; NaN counts, too."""
        before, self._place = self._place, self.robot.position()
        if not self._qvel.dot(self._qvel) <= self._fastest:
            self._sound = False
        for one, other in zip(before, self._place, strict=True):
            if not -self._longest <= one - other <= self._longest:
                self._sound = False

    def close(self) -> None:
        """Do nothing: Python releases the memory of MuJoCo."""
