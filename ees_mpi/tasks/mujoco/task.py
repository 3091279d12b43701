"""The task `mujoco`: Gymnasium v5's cheetah and ant, or an MJCF model of the user, on the CPU or on a GPU.

The observation is qpos without the coordinates that the behaviour measures (cheetah: x, ant: x and y), and qvel. The
behaviour is the position of the body `task.root` at the end, or after each of `task.behavior_steps`. It is MuJoCo's
`xpos`, which is one physics step older than Gymnasium's `x_position`.
"""

import importlib.util
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Floats, Singles
from ees_mpi.errors import ConfigError, MissingExtra
from ees_mpi.registry import Count, key, require, unknown
from ees_mpi.tasks.locomotion import WalkingTask
from ees_mpi.tasks.mujoco.engine import MujocoEngine
from ees_mpi.tasks.mujoco.physics import Buffers, Physics
from ees_mpi.tasks.mujoco.robot_model import RobotModel, Toolkit, library

RESET_NOISE = 0.1  # of Gymnasium v5's robots, in qpos (uniform) and qvel (normal)


@dataclass(frozen=True)
class GymnasiumRobot:
    """A robot that comes with Gymnasium v5, described so that a config can be read without MuJoCo."""

    file: str
    observations: int
    actions: int
    axes: int  # of the position that make the behaviour
    implicit: bool  # whether it is computed by the integrator implicitfast, and not by that of the file
    height: tuple[float, float] | None  # range of the root's z outside of which a rollout ends; None: it never falls


ROBOTS = {
    "cheetah": GymnasiumRobot("half_cheetah.xml", 17, 6, 1, False, None),
    # The file asks for RK4, which is three times as slow.
    "ant": GymnasiumRobot("ant.xml", 27, 8, 2, True, (0.2, 1.0)),
}


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

    def robot_model(self) -> "StateRobotModel":
        """Compile the model; loads MuJoCo. MJCF of a run file needs trust."""
        if self.model not in ROBOTS:
            require(self.model, "task.model")
            require(self.xml, "task.xml")
        return load(self.model, self.xml, self.root, self.axes, self.frame_skip)

    def _engine(self) -> MujocoEngine:
        return MujocoEngine(self, self.robot_model, self.contacts, self.constraints)


@dataclass(frozen=True)
class StateRobotModel(RobotModel):
    """A robot that observes its qpos, except for the coordinates that the behaviour measures, and its qvel."""

    kept: NDArray[np.int64]  # the entries of qpos that are observed

    @property
    def observations(self) -> int:
        """The number of observations: the kept part of qpos, and qvel."""
        return len(self.kept) + int(self.model.nv)

    def start(self, seed: int) -> tuple[Floats, Floats]:
        """Return qpos and qvel at the start: the same as a reset of Gymnasium v5's robots with this seed."""
        generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
        qpos = self.model.qpos0 + generator.uniform(low=-RESET_NOISE, high=RESET_NOISE, size=self.model.nq)
        qvel = RESET_NOISE * generator.standard_normal(self.model.nv)
        return qpos, qvel

    def one(self, data: Any) -> "OneStateRobot":
        return OneStateRobot(self, data)

    def many(self, tools: Toolkit, worlds: int, buffers: Buffers) -> Physics:
        return Physics(tools, self, self.kept, worlds, buffers)


class OneStateRobot:
    """One robot on the CPU that observes its state."""

    def __init__(self, robot_model: StateRobotModel, data: Any):
        self._mujoco, self._robot_model, self._data = library(), robot_model, data
        # Views of MuJoCo's memory, looked up once because each lookup costs a microsecond.
        self._qpos, self._qvel = data.qpos, data.qvel
        self._root = data.xpos[robot_model.root][: robot_model.axes]

    def reset(self) -> None:
        """Compute the positions of the bodies."""
        self._mujoco.mj_forward(self._robot_model.model, self._data)

    def step(self) -> None:
        self._mujoco.mj_step(self._robot_model.model, self._data, self._robot_model.sub_steps)

    def observation(self) -> Singles:
        return np.concatenate((self._qpos[self._robot_model.kept], self._qvel), dtype=np.float32, casting="same_kind")

    def position(self) -> list[float]:
        return self._root.tolist()


def xml_text(model: str) -> str:
    """Return the text of a user's MJCF file."""
    try:
        return Path(model).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        expected = f"expected one of {', '.join(ROBOTS)} or an MJCF file"
        raise ConfigError(f"task.model: {expected}; cannot read {model!r}: {error}") from None


@lru_cache(maxsize=4)
def load(model: str, xml: str, root: str, axes: int, sub_steps: int) -> StateRobotModel:
    """Compile a built-in robot, or the user's MJCF text, and look up the root body."""
    mujoco, robot = library(), ROBOTS.get(model)
    text = "" if robot else xml or xml_text(model)
    if re.search(r"file\w*\s*=", text, re.IGNORECASE):  # the run file carries this text only
        raise ConfigError(f"task.model {model!r}: expected a single file; it refers to others (include, mesh, ...)")
    try:
        if robot:
            compiled = mujoco.MjModel.from_xml_path(str(_assets() / robot.file))
        else:
            compiled = mujoco.MjModel.from_xml_string(text)
    except ValueError as error:
        raise ConfigError(f"task.model {model!r} is not a valid MJCF model: {' '.join(str(error).split())}") from None
    if compiled.nu == 0:
        raise ConfigError(f"task.model {model!r}: expected a model with actuators, got one without")
    if robot and robot.implicit:
        compiled.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    body = mujoco.mj_name2id(compiled, mujoco.mjtObj.mjOBJ_BODY, root)
    if body < 1:
        names = [compiled.body(number).name for number in range(1, compiled.nbody)]
        raise ConfigError(f"task.root: {unknown(root, [name for name in names if name])}")
    limited = compiled.actuator_ctrllimited.astype(bool)
    low, high = compiled.actuator_ctrlrange.astype(np.float32).T
    return StateRobotModel(
        compiled,
        body,
        axes,
        sub_steps,
        np.where(limited, low, np.float32(-np.inf)),
        np.where(limited, high, np.float32(np.inf)),
        robot.height if robot else None,
        _kept(mujoco, compiled, body, axes),
    )


def _assets() -> Path:
    """Return the folder of Gymnasium's MJCF files, without importing Gymnasium."""
    spec = importlib.util.find_spec("gymnasium")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra("task mujoco takes its robots from Gymnasium: pip install 'ees_mpi[mujoco]'")
    return Path(spec.submodule_search_locations[0]) / "envs" / "mujoco" / "assets"


def _kept(mujoco: Any, model: Any, body: int, axes: int) -> NDArray[np.int64]:
    """Return the entries of qpos without the coordinates that the behaviour measures."""
    top = int(model.body_rootid[body])
    first = int(model.body_jntadr[top])
    dropped: list[int] = []
    for joint in range(first, first + int(model.body_jntnum[top])):
        start = int(model.jnt_qposadr[joint])
        if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
            dropped += range(start, start + axes)
        elif model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE:
            direction = np.abs(model.jnt_axis[joint])
            dropped += [start] * any(direction[axis] > 0.999 for axis in range(axes))
    return np.setdiff1d(np.arange(model.nq), dropped).astype(np.int64)
