"""What Bullet does apart from mechanics: how its robots start and observe, where they are, and its oddities.

    drag      every link is slowed down by m v (0.04 + 0.04 |v|) and I w (0.04 + 0.04 |w|)
    solver    contacts and limits are not solved exactly, but with a few sweeps of impulses: see `robots.py`
    axes      the ant's ankles have axes of length sqrt(2): their angles change 1 / sqrt(2) as fast as the links turn
    late      positions of links, and contacts, are those before the last physics step, as in MuJoCo
    contacts  an observation contains the contacts of the feet after the action before the last
    floor     the position of a robot is the mean over its parts, and the floor counts as a part at (0, 0)

`robots.py` computes them for one robot, and `action.cpp` for many.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Floats
from ees_mpi.tasks.mujoco.replica.bodies import ANT_LEGS, AXIS, NEAR, ORDER

START_RANGE = 0.1  # of the joint angles
CLIP = 5.0  # of observations
TARGET_X = 1e3  # the target of Bullet's environments is (1000, 0)
DRAG, DRAG_OF_SPEED = 0.04, 0.04
SWEEPS = 5  # of the solver
LIMIT_SHARE, CONTACT_SHARE = 0.2, 0.9  # of an error that one physics step takes away
SLACK = 0.04  # rad; a joint further outside of its limits is stopped, but not pushed back
SLOP = 1e-5  # m; contacts keep this depth
FASTEST = 100.0  # of every degree of freedom
JOINTS_AT = 8  # index of the first joint in an observation
INITIAL_Z = 0.75  # of the ant's torso, from which its height is measured
LOWEST = 0.26  # height of the ant's torso at which Bullet's environment ends a rollout
CHEETAH_FEET = ("ffoot", "fshin", "fthigh", "bfoot", "bshin", "bthigh")  # in the order of the observation

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Rules:
    """Where the numbers of a robot are in its compiled model, and what weight they have."""

    planar: bool  # the cheetah: it moves in the plane y = 0
    joints: Indices  # [A] of the model
    qpos_at: Indices  # [A]
    dof_at: Indices  # [A]
    lower: Floats  # [A] limits of the angles
    upper: Floats
    rate: Floats  # [A] speed of the angle / speed of the link
    order: Indices  # [A] in which Bullet solves the limits of joints
    geoms: Indices  # [G] that can touch the floor
    bodies: Indices  # [G]
    half: Floats  # [G] half length of the capsule; 0: a sphere
    radius: Floats  # [G]
    near: Floats  # [G] Bullet makes a contact if the lowest point is below this height
    friction: float
    feet: Indices  # [F] index of the geoms whose contacts are observed
    torso: float  # weight of the torso in the position: of qpos, which is never late
    frames: Floats  # [bodies] weight of the origin of each body
    centers: Floats  # [bodies] weight of its center of mass

    @property
    def observations(self) -> int:
        return JOINTS_AT + 2 * len(self.joints) + len(self.feet)


def rules_of(robot: str, model: Any) -> Rules:
    """Return the rules of a robot, cheetah or ant; `model`: compiled from `bodies.XML`."""
    planar = robot == "cheetah"
    feet = CHEETAH_FEET if planar else tuple(f"{leg}_foot" for leg in ANT_LEGS)
    torso, frames, centers = _weights(planar, model)
    joints = model.actuator_trnid[:, 0].astype(np.int64)
    names = [model.joint(int(joint)).name for joint in joints]
    geoms = np.flatnonzero(model.geom_bodyid > 0)
    names_of_geoms = [model.geom(int(geom)).name for geom in geoms]
    return Rules(
        planar,
        joints,
        model.jnt_qposadr[joints].astype(np.int64),
        model.jnt_dofadr[joints].astype(np.int64),
        model.jnt_range[joints, 0].copy(),
        model.jnt_range[joints, 1].copy(),
        np.array([1 / AXIS if name.startswith("ankle") else 1.0 for name in names]),
        np.array(ORDER[robot]),
        geoms,
        model.geom_bodyid[geoms].astype(np.int64),
        model.geom_size[geoms, 1].copy(),
        model.geom_size[geoms, 0].copy(),
        np.array([NEAR[robot][name] for name in names_of_geoms]),
        float(model.geom_friction[geoms[0], 0]),
        np.array([names_of_geoms.index(foot) for foot in feet]),
        torso,
        frames,
        centers,
    )


def _weights(planar: bool, model: Any) -> tuple[float, Floats, Floats]:
    """Return the weights of the torso, of the origins of all bodies, and of their centers of mass, in the position.

    Cheetah: Bullet's model has a point-like link for every joint: one at each leg link, three at the torso. Ant: the
    parts are the torso, the centers of all links, and the point-like links of hips and ankles.
    """
    frames, centers = np.zeros(model.nbody), np.zeros(model.nbody)
    for body in range(1, model.nbody):
        part = model.body(body).name
        if planar:
            frames[body] = (4 if part == "torso" else 2) / 17
        else:
            frames[body] = 0.0 if part == "torso" or part.endswith("_leg") else 1 / 22
            centers[body] = 0.0 if part == "torso" else 1 / 22
    return 0.0 if planar else 1 / 22, frames, centers


def planar_angles(theta: float) -> tuple[float, float, float]:
    """Return roll, pitch and yaw of a rotation about y, as Bullet does."""
    if not math.isfinite(theta):
        return math.nan, math.nan, math.nan
    theta = math.remainder(theta, 2 * math.pi)
    if abs(theta) <= math.pi / 2:
        return 0.0, theta, 0.0
    roll = -math.pi if math.pi / 2 < theta < 2 * math.pi / 3 else math.pi  # the sign of a zero in Bullet
    return roll, math.copysign(math.pi, theta) - theta, math.pi


def angles(w: float, x: float, y: float, z: float) -> tuple[float, float, float]:
    """Return roll, pitch and yaw of a quaternion, as Bullet does."""
    sine = 2 * (w * y - x * z)
    if sine <= -0.99999:
        return 0.0, -math.pi / 2, 2 * math.atan2(x, -y)
    if sine >= 0.99999:
        return 0.0, math.pi / 2, 2 * math.atan2(-x, y)
    roll = math.atan2(2 * (y * z + w * x), w * w - x * x - y * y + z * z)
    return roll, math.asin(sine), math.atan2(2 * (x * y + w * z), w * w + x * x - y * y - z * z)
