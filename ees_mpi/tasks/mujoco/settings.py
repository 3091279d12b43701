"""The config section of task `mujoco`, and the model that it describes.

The observation is qpos without the coordinates that the behaviour measures (cheetah: x, ant: x and y), and qvel. The
behaviour is the position of the body `task.root` at the end, or after each of `task.behavior_steps`.
"""

from typing import Annotated, Literal, Self

import msgspec

from ees_mpi.errors import ConfigError
from ees_mpi.tasks.locomotion import Count, WalkingTask
from ees_mpi.tasks.mujoco.model import Plant, load, xml_text
from ees_mpi.tasks.mujoco.robots import ROBOTS

Size = Annotated[int, msgspec.Meta(ge=0)]
OWN_ON_GPU = "GPUs evaluate the built-in network only, not task.policy"


class Settings(WalkingTask, frozen=True):
    """The config section of a MuJoCo robot."""

    model: str = "cheetah"  # a built-in robot, or the path of an MJCF file
    root: str = "torso"  # the body whose position is the behaviour
    dimensions: Literal[1, 2] | None = None  # of the behaviour: x, or x and y; only for a model of the user (default 2)
    xml: str = ""  # the text of the user's model, set by `resolved`, so that a run file carries it
    integrator: Literal["", "euler", "rk4", "implicitfast"] = ""  # empty: implicitfast (ant), else as the model says
    frame_skip: Count = 5  # physics steps per action
    device: Literal["auto", "cpu", "cuda"] = "auto"
    contacts: Size = 0  # GPU: contacts per robot that fit into memory, on average; 0: measured
    constraints: Size = 0  # GPU: constraints per robot that fit into memory; 0: measured

    def __post_init__(self) -> None:
        if self.model in ROBOTS and self.dimensions not in (None, ROBOTS[self.model].axes):
            raise ValueError(f"task.dimensions: the {self.model} has {ROBOTS[self.model].axes}; leave it out")
        super().__post_init__()

    @property
    def axes(self) -> int:
        """Return how many coordinates of the position are the behaviour."""
        return ROBOTS[self.model].axes if self.model in ROBOTS else (self.dimensions or 2)

    @property
    def layers(self) -> tuple[int, ...]:
        """Return the sizes of the policy's layers, from observation to action; compiles the model of a user."""
        if self.model in ROBOTS:
            robot = ROBOTS[self.model]
            return (robot.observations, *self.hidden, robot.actions)
        plant = self.plant()
        return (plant.observations, *self.hidden, int(plant.model.nu))

    def resolved(self) -> Self:
        """Return the task with the text of the user's model in it, so that it no longer needs the file."""
        if self.model in ROBOTS or self.xml:
            return self
        return msgspec.structs.replace(self, xml=xml_text(self.model))

    def check(self) -> None:
        """Compile the model. A GPU is looked for at the start of a run only: it is not needed for reading one."""
        if self.model in ROBOTS and self.xml:
            raise ConfigError(f"task.xml: the {self.model} is built in; leave it out")
        if self.policy and self.device == "cuda":
            raise ConfigError(f'task.device = "cuda": {OWN_ON_GPU}; use task.device = "cpu"')
        self.plant()
        super().check()

    def plant(self) -> Plant:
        """Compile the model; loads MuJoCo."""
        default = ROBOTS[self.model].integrator if self.model in ROBOTS else ""
        return load(self.model, self.xml, self.root, self.axes, self.integrator or default)
