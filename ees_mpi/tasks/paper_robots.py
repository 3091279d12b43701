"""The paper's walking tasks, `cheetah` and `ant`, on one of two engines: the behaviour is the final position.

Gajewski et al. 2019, sections 5.2 and 5.3. `behavior_steps` adds the positions at other steps (supplement S5).

    bullet   the paper's physics: on CPUs, with the bits of the ready-made environments
    mujoco   the same robots rebuilt in MuJoCo with the numbers that Bullet uses ("Bullet replica"): on CPUs or a GPU
"""

from typing import Annotated, Any, ClassVar, Literal

import msgspec

from ees_mpi.registry import key, loaded
from ees_mpi.tasks.locomotion import WalkingTask

ENGINES = {
    "bullet": "ees_mpi.tasks.bullet.robots:BulletEngine",
    "mujoco": "ees_mpi.tasks.mujoco.replica.robots:replica_engine",
}
ENGINE_LABELS = {"bullet": "Bullet", "mujoco": "Bullet replica in MuJoCo"}


class PaperRobot(WalkingTask, frozen=True):
    """A robot of the paper."""

    engine: Annotated[
        Literal["bullet", "mujoco"], key("The physics: the paper's (bullet), or its replica in MuJoCo, also for GPUs.")
    ] = "bullet"
    device: Annotated[
        Literal["auto", "cpu", "cuda"] | None,
        key("Where rollouts of engine mujoco run; auto, also if not set: on a GPU if there is one."),
    ] = None

    repeats_on_gpu = True  # kernels of our own solve the contacts, and add in a fixed order
    only_with = {"device": ("engine", "mujoco")}  # noqa: RUF012
    robot: ClassVar[str]
    sizes: ClassVar[tuple[int, int]]  # observations, actions
    axes: ClassVar[int]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.engine == "mujoco" and self.device is None:
            msgspec.structs.force_setattr(self, "device", "auto")
        elif self.engine == "bullet" and self.device is not None:
            raise ValueError('task.device: engine "bullet" runs on CPUs only; leave it out, or set engine = "mujoco"')

    @property
    def layers(self) -> tuple[int, ...]:
        return (self.sizes[0], *self.hidden, self.sizes[1])

    def _engine(self) -> Any:
        return loaded(ENGINES[self.engine])(self)


class Cheetah(PaperRobot, frozen=True):
    """The half cheetah: its behaviour is the final x."""

    robot = "cheetah"
    sizes = (26, 6)
    axes = 1


class Ant(PaperRobot, frozen=True):
    """The ant: its behaviour is the final x and y."""

    robot = "ant"
    sizes = (28, 8)
    axes = 2
