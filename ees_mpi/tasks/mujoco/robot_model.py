"""What rollouts in MuJoCo need to know about a robot: its model, its start, and how it steps and observes.

Two kinds of robots exist: those that observe their state (`task.py`: Gymnasium's and the user's), and the replicas of
Bullet's robots (`replica/`). Everything else in this folder works with both. `MujocoWalker` is one robot on the CPU,
with the same bits every time.
"""

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Floats, Singles
from ees_mpi.errors import optional
from ees_mpi.tasks.locomotion import FASTEST, FASTEST_COORDINATE


@dataclass(frozen=True)
class Toolkit:
    """The imported libraries, and the device that they work on."""

    torch: Any
    warp: Any
    mujoco_warp: Any
    device: str  # as both torch and Warp name it: "cuda:0", or "cpu" in tests


class ManyRobots:
    """Robots that step together on a device. `step` and `observe` take no memory, for the sake of CUDA graphs."""

    qpos: Any  # tensors, float32[worlds, ...], always the same memory
    qvel: Any
    ctrl: Any
    position: Any
    observation: Any
    start: tuple[Any, Any]  # qpos and qvel at the start
    memory: Any  # what robots carry from step to step besides qpos and qvel; 0 at the start

    def reset(self, qpos: Singles, qvel: Singles) -> None:
        """Put all robots to their starts, [worlds, nq] and [worlds, nv] or one start for all, as if new."""
        import torch

        for start, tensor, values in zip(self.start, (self.qpos, self.qvel), (qpos, qvel), strict=True):
            start.copy_(torch.from_numpy(values))
            tensor.copy_(start)

    def step(self) -> None:
        """Advance by one action, which is in `ctrl`."""
        raise NotImplementedError

    def observe(self) -> None:
        """Bring `observation` up to date, unless `reset` and `step` do so."""

    def dropped(self, worlds: NDArray[np.int64]) -> str:
        """Say which buffers were too small for some worlds since the last reset; empty: none."""
        return ""

    def seconds(self) -> float:
        """Return the simulated time since the last reset."""
        raise NotImplementedError

    def bytes(self) -> int:
        """Return the memory of the robots while they step."""
        raise NotImplementedError


@dataclass(frozen=True)
class RobotModel:
    """A compiled model and the numbers that rollouts need."""

    model: Any  # mujoco.MjModel
    root: int  # the body whose position is the behaviour
    axes: int  # of the position that make the behaviour
    sub_steps: int  # physics steps per action
    low: Singles  # [actions] bounds of the controls
    high: Singles
    height: tuple[float, float] | None  # range of qpos[2] outside of which a rollout ends

    @property
    def step_seconds(self) -> float:
        """The simulated time of one action."""
        return self.sub_steps * float(self.model.opt.timestep)

    def start(self, seed: int) -> tuple[Floats, Floats]:
        """Return qpos and qvel at the start of rollouts with this seed."""
        raise NotImplementedError

    def one(self, data: Any) -> Any:
        """Return the robot on the CPU whose state is `data`: `reset()`, `step()`, `observation()`, `position()`."""
        raise NotImplementedError

    def many(self, tools: Toolkit, worlds: int, buffers: Any) -> ManyRobots:
        """Take the memory of so many robots on Warp's current device; `buffers`: their `Buffers`."""
        raise NotImplementedError


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


def library(instead: str = "") -> Any:
    """Import MuJoCo, or raise an error that says how to install it; `instead`: words on what works without it."""
    renderer, broken = os.environ.get("MUJOCO_GL"), ""
    if renderer:  # MuJoCo loads its library at once
        cure = "unset this variable, or install its library (Debian: libegl1 or libosmesa6)"
        broken = f"MuJoCo cannot be imported with MUJOCO_GL={renderer}; {cure}. The error was"
    mujoco = optional("mujoco", f"MuJoCo is missing: pip install 'ees_mpi[mujoco]'{instead}", broken)
    # Otherwise every rank writes MUJOCO_LOG.TXT; a rollout that blows up is marked invalid instead.
    mujoco.set_mju_user_warning(lambda message: None)
    return mujoco
