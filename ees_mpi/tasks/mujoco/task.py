"""The task `mujoco`: Gymnasium v5's cheetah and ant, or an MJCF model of the user, on the CPU or on a GPU.

The observation is qpos without the coordinates that the behaviour measures (cheetah: x, ant: x and y), and qvel. The
behaviour is the position of the body `task.root` at the end, or after each of `task.behavior_steps`. It is MuJoCo's
`xpos`, which is one physics step older than Gymnasium's `x_position`.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

import msgspec

from ees_mpi.errors import ConfigError
from ees_mpi.registry import Count, key, require
from ees_mpi.tasks.locomotion import WalkingTask
from ees_mpi.tasks.mujoco.engine import MujocoEngine
from ees_mpi.tasks.mujoco.mjcf import ROBOTS, StateRobotModel, load, xml_text


class Mujoco(WalkingTask, frozen=True):
    """A robot in MuJoCo."""

    model: Annotated[str, key("A built-in robot, cheetah or ant, or the path of an MJCF file.")] = "cheetah"
    root: Annotated[str, key("The body whose position is the behaviour.")] = "torso"
    dimensions: Annotated[
        Literal[1, 2] | None, key("The behaviour is x, or x and y; for an MJCF file only; not set: 2.", "coordinates")
    ] = None
    xml: Annotated[str, key("The text of the MJCF file; the program sets it.")] = ""
    frame_skip: Annotated[Count, key("The physics steps per action.", "physics steps")] = 5
    device: Annotated[Literal["auto", "cpu", "cuda"], key("Where rollouts run; auto: on a GPU, if any.")] = "auto"
    contacts: Annotated[int, key("GPU: room for contacts per robot, on average; 0: measured.", "contacts", ge=0)] = 0
    constraints: Annotated[int, key("GPU: room for constraints per robot; 0: measured.", "constraints", ge=0)] = 0

    def __post_init__(self) -> None:
        if self.model in ROBOTS and self.dimensions not in (None, ROBOTS[self.model].axes):
            raise ValueError(f"task.dimensions: the {self.model} has {ROBOTS[self.model].axes}; leave it out")
        super().__post_init__()

    @property
    def label(self) -> str:
        """Return the name of the robot, or of the user's file."""
        return f"MuJoCo {self.model}"

    @property
    def axes(self) -> int:
        return ROBOTS[self.model].axes if self.model in ROBOTS else (self.dimensions or 2)

    @property
    def lengths(self) -> tuple[float, float] | None:
        return super().lengths if self.model in ROBOTS else None

    @property
    def sizes_known(self) -> bool:
        """Return False for the model of a user, which must be compiled."""
        return self.model in ROBOTS and super().sizes_known

    @property
    def layers(self) -> tuple[int, ...]:
        """Return the sizes of the policy's layers, from observation to action; compiles the model of a user."""
        if self.model in ROBOTS:
            robot = ROBOTS[self.model]
            return (robot.observations, *self.hidden, robot.actions)
        robot_model = self.robot_model()
        return (robot_model.observations, *self.hidden, int(robot_model.model.nu))

    def resolved(self) -> Self:
        """Return the task with the text of the user's model in it, so that it no longer needs the file."""
        if self.model in ROBOTS or self.xml:
            return self
        require(self.model, "task.model")  # it would be read
        name = Path(self.model).name  # without its folder: run files are passed on
        return msgspec.structs.replace(self, model=f"own {name}" if name in ROBOTS else name, xml=xml_text(self.model))

    def check(self) -> None:
        """Raise a ConfigError if settings contradict each other, or the robot or the network cannot work."""
        if self.model in ROBOTS and self.xml:
            raise ConfigError(f"task.xml: the {self.model} is built in; leave it out")
        super().check()

    def robot_model(self) -> StateRobotModel:
        """Compile the model; loads MuJoCo. MJCF of a run file needs trust."""
        if self.model not in ROBOTS:
            require(self.model, "task.model")
            require(self.xml, "task.xml")
        return load(self.model, self.xml, self.root, self.axes, self.frame_skip)

    def _engine(self) -> MujocoEngine:
        return MujocoEngine(self, self.robot_model, self.contacts, self.constraints)
