"""What rollouts in MuJoCo need to know about a robot: its model, its start, and how it steps and observes.

Two kinds of robots exist: those that observe their state (`mjcf.py`: Gymnasium's and the user's), and the replicas of
Bullet's robots (`replica/`). Everything else in this folder works with both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ees_mpi.errors import MissingExtra
from ees_mpi.outcomes import Floats, Singles
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


class ManyRobots(Protocol):
    """Robots that step together in MuJoCo Warp. `step` and `observe` take no memory, for the sake of CUDA graphs."""

    position: Any  # tensor, float32[worlds, axes]
    observation: Any  # tensor, float32[worlds, O]

    def reset(self) -> None:
        """Begin a batch; qpos and qvel are at the start."""

    def step(self) -> None:
        """Advance by one action, which is in `ctrl`."""

    def observe(self) -> None:
        """Bring `observation` up to date."""


@dataclass(frozen=True)
class RobotModel:
    """A compiled model and the numbers that rollouts need."""

    model: Any  # mujoco.MjModel
    root: int  # the body that a camera follows
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

    def many(self, tools: Toolkit, model: Any, data: Any, worlds: int) -> ManyRobots:
        """Return the robots whose state is `data`; `model` and `data`: of MuJoCo Warp."""
        raise NotImplementedError


def library() -> Any:
    """Import MuJoCo, or raise an error that says how to install it."""
    try:
        import mujoco
    except ImportError:
        raise MissingExtra("MuJoCo is missing: pip install 'ees_mpi[mujoco]'") from None
    # Otherwise every rank writes MUJOCO_LOG.TXT; a rollout that blows up is marked invalid instead.
    mujoco.set_mju_user_warning(lambda message: None)
    return mujoco
