"""What rollouts in MuJoCo need to know about a robot: its model, its start, and how it steps and observes.

Two kinds of robots exist: those that observe their state (`mjcf.py`: Gymnasium's and the user's), and the replicas of
Bullet's robots (`replica/`). Everything else in this folder works with both.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Floats, Singles
from ees_mpi.errors import optional
from ees_mpi.tasks.mujoco.gpu import Toolkit


class OneRobot(Protocol):
    """One robot on the CPU."""

    def reset(self) -> None:
        """Begin a rollout; qpos and qvel are at the start."""

    def step(self) -> None:
        """Advance by one action, which is in `ctrl`."""

    def observation(self) -> Singles:
        """Return the observation, float32[O]."""

    def position(self) -> Sequence[float]:
        """Return the position along the axes of the behaviour."""


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

    def one(self, data: Any) -> OneRobot:
        """Return the robot on the CPU whose state is `data`."""
        raise NotImplementedError

    def many(self, tools: Toolkit, worlds: int, buffers: Any) -> ManyRobots:
        """Take the memory of so many robots on Warp's current device; `buffers`: their `Buffers`."""
        raise NotImplementedError


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
