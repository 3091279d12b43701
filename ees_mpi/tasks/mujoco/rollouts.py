"""A robot in MuJoCo on the CPU, with the same bits every time."""

import math

import numpy as np

from ees_mpi.outcomes import Singles
from ees_mpi.tasks.locomotion import FASTEST, FASTEST_COORDINATE
from ees_mpi.tasks.mujoco.plant import Plant, library


class Simulation:
    """One robot in MuJoCo: its state, and the functions that advance it."""

    def __init__(self, plant: Plant, terminates: bool, seed: int):
        mujoco = library()
        self.plant, self.model = plant, plant.model
        self.data = mujoco.MjData(self.model)
        self._mujoco, self._robot, self._start = mujoco, plant.one(self.data), plant.start(seed)
        kinds = ("mjWARN_BADQPOS", "mjWARN_BADQVEL", "mjWARN_BADQACC", "mjWARN_BADCTRL")
        self._warnings = [getattr(mujoco.mjtWarning, kind) for kind in kinds]
        self._height = plant.height if terminates else None
        # Views of MuJoCo's memory, looked up once because each lookup costs a microsecond.
        self._qpos, self._qvel, self._ctrl = self.data.qpos, self.data.qvel, self.data.ctrl
        self.observation = self._robot.observation
        self._longest, self._fastest = FASTEST * plant.step_seconds, FASTEST_COORDINATE**2
        self._sound, self._place = True, self._robot.position()

    def reset(self) -> Singles:
        """Return to the start and observe; the warm start of the solver is reset, too."""
        self._mujoco.mj_resetData(self.model, self.data)
        self._qpos[:], self._qvel[:] = self._start
        self._robot.reset()
        self._sound, self._place = True, self._robot.position()
        return self.observation()

    def step(self, action: Singles) -> bool:
        """Act for one time step; return whether the rollout has ended."""
        np.maximum(np.minimum(action, self.plant.high), self.plant.low, out=self._ctrl)
        self._robot.step()
        self._check_speeds()
        fallen = self._height is not None and not self._height[0] <= self._qpos[2] <= self._height[1]
        return fallen or not self._sound

    def _check_speeds(self) -> None:
        """Note whether the last step was longer or faster than any robot can be; NaN counts, too."""
        before, self._place = self._place, self._robot.position()
        if not self._qvel.dot(self._qvel) <= self._fastest:
            self._sound = False
        for one, other in zip(before, self._place, strict=True):
            if not -self._longest <= one - other <= self._longest:
                self._sound = False

    @property
    def position(self) -> tuple[float, ...]:
        """Return the position along the axes of the behaviour."""
        return tuple(self._place)

    @property
    def broken(self) -> bool:
        """Return whether the state is not finite or impossible, or MuJoCo has reset the robot because of it."""
        if not self._sound or any(self.data.warning[kind].number for kind in self._warnings):
            return True
        return not (np.isfinite(self._qpos).all() and np.isfinite(self._qvel).all())


class RobotWalker:
    """A robot that is controlled step by step, from the same start every time."""

    def __init__(self, plant: Plant, terminates: bool, seed: int):
        self.simulation = Simulation(plant, terminates, seed)

    @property
    def position(self) -> tuple[float, ...]:
        """Return the present position, along the axes of the behaviour; NaN after unstable physics."""
        place = self.simulation.position
        return (math.nan,) * len(place) if self.simulation.broken else place

    @property
    def finite(self) -> bool:
        """Return whether the physics is finite."""
        return not self.simulation.broken

    def reset(self) -> Singles:
        """Return to the start and observe."""
        return self.simulation.reset()

    def step(self, action: Singles) -> tuple[Singles, bool]:
        """Act for one time step; return the observation and whether the rollout has ended."""
        done = self.simulation.step(action)
        return self.simulation.observation(), done

    def close(self) -> None:
        """Do nothing: Python releases the memory of MuJoCo."""
