"""A Bullet world: one physics client with a floor and one robot. It prints nothing, and its start can be restored.

At the end are the limbs of a robot, from which it is drawn.
"""

import contextlib
import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ees_mpi.arrays import Floats
from ees_mpi.errors import MissingExtra
from ees_mpi.terminal import silence

TIME_STEP = 0.0165
SUB_STEPS = 4
SOLVER_ITERATIONS = 5
NO_MOTOR = {"targetPosition": 0, "targetVelocity": 0, "positionGain": 0.1, "velocityGain": 0.1, "force": 0}

Limb = tuple[str, Sequence[Sequence[float]], float]  # a link, the ends of a capsule's axis in its frame, the radius


def _imported() -> tuple[Any, str]:
    """Import pybullet without its message; return it, and the folder of its models."""
    try:
        with silence():
            import pybullet
            import pybullet_data
    except ImportError as error:
        need = f"the cheetah and the ant need pybullet, which cannot be imported here ({error})"
        other = "--set task.engine=mujoco, which is slower on a CPU"
        raise MissingExtra(f"{need}: pip install 'ees_mpi[bullet]', or {other}") from None
    return pybullet, pybullet_data.getDataPath()


pybullet, MODELS = _imported()


def _disconnect(client: int) -> None:
    with contextlib.suppress(pybullet.error):
        pybullet.disconnect(client)


@dataclass(frozen=True)
class Joint:
    """A joint, the link it carries and the limits of its angle."""

    index: int
    name: str
    link: str
    lower: float
    upper: float


class World:
    """A floor and one robot in their own physics client."""

    def __init__(self, model: str) -> None:
        with silence():
            self.client: int = pybullet.connect(pybullet.DIRECT)
            self._release = weakref.finalize(self, _disconnect, self.client)
            self.floor, self.body = self._load(os.path.join(MODELS, "mjcf", model))
        off = {"controlMode": pybullet.POSITION_CONTROL, **NO_MOTOR, "physicsClientId": self.client}
        for joint in self.joints():  # only torques move the robot: switch off the motors that Bullet gives to joints
            pybullet.setJointMotorControl2(self.body, joint.index, **off)
        self._start: int = pybullet.saveState(self.client)

    def _load(self, model: str) -> tuple[int, int]:
        """Configure the engine; load the floor, then the robot. Another order gives other bits."""
        c = self.client
        pybullet.setPhysicsEngineParameter(deterministicOverlappingPairs=1, physicsClientId=c)
        pybullet.setGravity(0, 0, -9.8, physicsClientId=c)
        pybullet.setDefaultContactERP(0.9, physicsClientId=c)
        pybullet.setPhysicsEngineParameter(
            fixedTimeStep=TIME_STEP, numSolverIterations=SOLVER_ITERATIONS, numSubSteps=SUB_STEPS, physicsClientId=c
        )
        (floor,) = pybullet.loadSDF(os.path.join(MODELS, "plane_stadium.sdf"), physicsClientId=c)
        pybullet.changeDynamics(floor, -1, lateralFriction=0.8, restitution=0.5, physicsClientId=c)
        flags = (
            pybullet.URDF_USE_SELF_COLLISION
            | pybullet.URDF_USE_SELF_COLLISION_EXCLUDE_ALL_PARENTS
            | pybullet.URDF_GOOGLEY_UNDEFINED_COLORS
        )
        (body,) = pybullet.loadMJCF(model, flags=flags, physicsClientId=c)
        return floor, body

    def joints(self) -> list[Joint]:
        """Return all joints of the robot, the fixed ones included, in order."""
        count = pybullet.getNumJoints(self.body, self.client)
        infos = (pybullet.getJointInfo(self.body, j, self.client) for j in range(count))
        return [Joint(i[0], i[1].decode(), i[12].decode(), i[8], i[9]) for i in infos]

    def restore(self) -> None:
        """Return to the first state, contacts included, so that a rollout does not depend on earlier ones."""
        pybullet.restoreState(self._start, physicsClientId=self.client)

    def close(self) -> None:
        """Release the physics client; closing twice does nothing."""
        self.client = -1  # pybullet may reuse the old number
        self._release()


@cache
def read_limbs(model: str) -> list[Limb]:
    """Return the capsules and balls of a robot in its MJCF file: Bullet does not return their ends."""
    root = ElementTree.parse(os.path.join(MODELS, "mjcf", model)).getroot()
    return [_limb(body.attrib["name"], geom) for body in root.iter("body") for geom in body.findall("geom")]


def _limb(link: str, geom: ElementTree.Element) -> Limb:
    """Return a `geom`, whose axis is given by `fromto`, or by its middle, its turn and half its length (a ball: 0)."""
    radius, *half = _numbers(geom, "size")
    if "fromto" in geom.attrib:
        numbers = _numbers(geom, "fromto")
        return link, (numbers[:3], numbers[3:]), radius
    *axis, angle = _numbers(geom, "axisangle", "0 0 1 0")
    turn = pybullet.getQuaternionFromAxisAngle(axis, angle)
    middle, length = _numbers(geom, "pos"), half[0] if half else 0.0
    ends = [pybullet.multiplyTransforms(middle, turn, (0, 0, z), (0, 0, 0, 1))[0] for z in (-length, length)]
    return link, ends, radius


def _numbers(geom: ElementTree.Element, name: str, default: str = "0 0 0") -> list[float]:
    return [float(word) for word in geom.get(name, default).split()]


def in_space(limbs: list[Limb], frames: dict[str, tuple[Floats, Floats]]) -> Floats:
    """Return limbs [n, 7]: both ends and the radius; `frames`: position and orientation of each link."""
    rows = np.empty((len(limbs), 7))
    for row, (link, ends, radius) in zip(rows, limbs, strict=True):
        places = [pybullet.multiplyTransforms(*frames[link], end, (0, 0, 0, 1))[0] for end in ends]
        row[:] = *places[0], *places[1], radius
    return rows
