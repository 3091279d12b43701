"""The cheetah and the ant of the paper on raw pybullet.

Every observation, end and position has the same bits as in `HalfCheetahBulletEnv-v0` and `AntBulletEnv-v0` of
pybullet_envs_gymnasium. There is one exception: there, the floor is not a part of the robot in the first observation
of an environment, but it is in all later ones. Here it always is. Some lines look complicated (numpy for one sine),
because the simple way rounds differently.
"""

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ees_mpi.arrays import Floats, Singles
from ees_mpi.tasks.bullet.world import TIME_STEP, World, in_space, pybullet, read_limbs
from ees_mpi.tasks.locomotion import FASTEST, FASTEST_COORDINATE
from ees_mpi.tasks.paper_robots import PaperRobot

Numbers = Sequence[float]
Pose = tuple[float, float, float, Numbers, Numbers]

TARGET_X = 1e3  # the target of the ready-made environments is (1000, 0)
START_RANGE = 0.1
CLIP = 5.0
JOINTS_AT = 8  # index of the first joint in an observation
LINK_AT = 3  # index of the robot's link in a contact point
ANY_LINK = -2
MAX_STEP = FASTEST * TIME_STEP
TORSO_AT = 1  # index of the torso among the ant's parts
MAX_OBSERVATION = 0.1 * FASTEST_COORDINATE  # of an observation before it is clipped: joint speeds are divided by 10


class Robot:
    """A robot on a floor, in its own physics client. Every rollout starts from the same saved state."""

    model: ClassVar[str]
    observation_size: ClassVar[int]
    action_size: ClassVar[int]
    powers: ClassVar[dict[str, float]]  # joint -> torque at action 1
    feet: ClassVar[tuple[str, ...]]  # links whose contact with the floor is observed
    read: ClassVar[tuple[str, ...]] = ()  # links that `_pose` reads; empty: all
    ends_when_fallen: ClassVar[bool]

    def __init__(self) -> None:
        self._build()
        self._pack: Callable[..., None] = struct.Struct(f"{self.observation_size}f").pack_into
        self._pack_frame: Callable[..., None] = struct.Struct("14d").pack_into
        self._frame = np.empty(14)
        self._ahead, self._aside, self._theta = self._frame[1:2], self._frame[0:1], np.empty(1)
        self._turn, self._speed, self._turned = self._frame[2:11].reshape(3, 3), self._frame[11:], np.empty(3)

    def _build(self) -> None:
        """Make the world and find the joints and links that are moved or read."""
        self._world = World(self.model)
        self._client, self._body, self._floor = self._world.client, self._world.body, self._world.floor
        joints = self._world.joints()
        moved = [joint for joint in joints if joint.name in self.powers]
        self._joints = [joint.index for joint in moved]
        self._scales = [(joint.lower, joint.upper - joint.lower) for joint in moved]
        self._powers = [self.powers[joint.name] for joint in moved]
        links = {joint.link: joint.index for joint in joints}
        self._feet = [links[foot] for foot in self.feet]
        self._links = [links[name] for name in self.read or links]
        self.position = self._pose()[:3]
        self._initial_z = self.position[2]
        self._values: list[float] = []
        self._possible = True

    def reset(self, seed: int | np.random.Generator) -> NDArray[np.float32]:
        """Start a rollout, with joint angles drawn from the seed or the generator; return the observation."""
        if self.finite:
            self._world.restore()
        else:  # Bullet's collision tree keeps NaN after a restore
            self._world.close()
            self._build()
        angles = np.random.default_rng(seed).uniform(-START_RANGE, START_RANGE, self.action_size)
        for joint, angle in zip(self._joints, angles.tolist(), strict=True):
            pybullet.resetJointState(self._body, joint, angle, 0, physicsClientId=self._client)
        self._touching, self._possible = [0.0] * len(self._feet), True
        return self._observe()

    def step(self, action: NDArray[Any]) -> tuple[NDArray[np.float32], bool]:
        """Apply an action, clipped to +-1, for one time step; return the observation and whether the rollout ended."""
        torques = [
            power * a if -1.0 < a < 1.0 else power if a >= 1.0 else -power if a <= -1.0 else _refuse(action)
            for power, a in zip(self._powers, action.tolist(), strict=True)
        ]
        pybullet.setJointMotorControlArray(
            self._body, self._joints, pybullet.TORQUE_CONTROL, forces=torques, physicsClientId=self._client
        )
        before_x, before_y, _ = self.position
        pybullet.stepSimulation(self._client)
        observation = self._observe()
        points = pybullet.getContactPoints(self._body, self._floor, ANY_LINK, ANY_LINK, self._client)
        touching = [point[LINK_AT] for point in points]
        self._touching = [1.0 if foot in touching else 0.0 for foot in self._feet]  # for the next observation
        x, y, _ = self.position
        if not (abs(x - before_x) <= MAX_STEP and abs(y - before_y) <= MAX_STEP):
            self._possible = False
        return observation, not self._possible or (self.ends_when_fallen and not self.alive)

    def _observe(self) -> NDArray[np.float32]:
        """Read the state of the robot and return it as an observation."""
        joints = pybullet.getJointStates(self._body, self._joints, self._client)
        x, y, z, orientation, speed = self._pose()
        roll, pitch, yaw = pybullet.getEulerFromQuaternion(orientation)
        angle, vx, vy, vz = self._look(x, y, yaw, speed)
        rise = z - self._initial_z
        values = [rise, np.sin(angle), np.cos(angle), 0.3 * vx, 0.3 * vy, 0.3 * vz, roll, pitch]
        for (position, velocity, _, _), (lower, width) in zip(joints, self._scales, strict=True):
            values.append(2 * (position - lower) / width - 1.0)
            values.append(0.1 * velocity)
        values += self._touching
        self.position = (x, y, z)
        self._values = values
        observation = self._rounded(values)
        self._height = observation.item(0) + self._initial_z
        return observation

    def _look(self, x: float, y: float, yaw: float, speed: Numbers) -> Numbers:
        """Return the angle from the robot's heading to the target, then the speed in the frame of the robot."""
        cos, sin = np.cos(-yaw), np.sin(-yaw)
        self._pack_frame(self._frame, 0, 0.0 - y, TARGET_X - x, cos, -sin, 0.0, sin, cos, 0.0, 0.0, 0.0, 1.0, *speed)
        np.arctan2(self._aside, self._ahead, out=self._theta)
        self._turn.dot(self._speed, self._turned)
        return self._theta.item() - yaw, *self._turned.tolist()

    def _rounded(self, values: list[float]) -> NDArray[np.float32]:
        """Round to float32 and clip to +-5; note whether a number is NaN, or larger than a robot can make it."""
        observation = np.empty(self.observation_size, np.float32)
        try:
            self._pack(observation, 0, *values)
        except OverflowError:  # finite, but beyond float32
            observation[:] = np.clip(values, -CLIP, CLIP)
        if not observation.dot(observation) <= CLIP * CLIP:  # rare; otherwise all numbers are within +-5
            observation.clip(-CLIP, CLIP, observation)
            if not all(abs(value) <= MAX_OBSERVATION for value in values):
                self._possible = False
        return observation

    def _pose(self) -> Pose:
        """Return mean x and y of all parts, the floor included, and the torso's z, orientation and speed."""
        raise NotImplementedError

    @property
    def alive(self) -> bool:
        """Return whether the robot, as last observed, is upright enough to be rewarded."""
        raise NotImplementedError

    @property
    def finite(self) -> bool:
        """Return whether position and observation are finite and possible; if not, the rollout is invalid."""
        return self._possible and all(map(math.isfinite, (*self.position, *self._values)))

    @property
    def joint_positions(self) -> NDArray[np.float32]:
        """Return the joint angles as last observed, from -1 to 1 between their limits, not clipped."""
        return np.array(self._values[JOINTS_AT : JOINTS_AT + 2 * self.action_size : 2], np.float32)

    @property
    def joint_speeds(self) -> NDArray[np.float32]:
        """Return a tenth of the joint speeds as last observed, not clipped."""
        return np.array(self._values[JOINTS_AT + 1 : JOINTS_AT + 2 * self.action_size : 2], np.float32)

    def limbs(self) -> Floats:
        """Return the limbs, [n, 7]: both ends of the axis of a capsule, and its radius."""
        states = [
            (j.link, pybullet.getLinkState(self._body, j.index, 0, 0, self._client)) for j in self._world.joints()
        ]
        frames = {link: state[4:6] for link, state in states}
        frames.setdefault("torso", pybullet.getBasePositionAndOrientation(self._body, self._client))
        return in_space(read_limbs(self.model), frames)

    def close(self) -> None:
        """Release the physics client; closing twice does nothing."""
        self._client = -1
        self._world.close()


def _refuse(action: NDArray[Any]) -> float:
    raise FloatingPointError(f"expected an action of numbers from -1 to 1; got {action.tolist()}")


class BulletCheetah(Robot):
    """The half cheetah: six joints, held in the plane y = 0. An episode never ends early."""

    model = "half_cheetah.xml"
    observation_size = 26
    action_size = 6
    powers: ClassVar = {
        "bthigh": 0.9 * 120.0,
        "bshin": 0.9 * 90.0,
        "bfoot": 0.9 * 60.0,
        "fthigh": 0.9 * 140.0,
        "fshin": 0.9 * 60.0,
        "ffoot": 0.9 * 30.0,
    }
    feet = ("ffoot", "fshin", "fthigh", "bfoot", "bshin", "bthigh")
    read = ("torso", "bthigh", "bshin", "bfoot", "fthigh", "fshin", "ffoot")
    ends_when_fallen = False

    def _pose(self) -> Pose:
        states = pybullet.getLinkStates(self._body, self._links, 1, 0, self._client)
        (_, _, z), orientation, _, _, _, _, speed, _ = states[0]
        x = self._mean(*[state[0][0] for state in states])
        y = self._mean(*[state[0][1] for state in states])
        return x, y, z, orientation, speed

    @staticmethod
    def _mean(
        torso: float, bthigh: float, bshin: float, bfoot: float, fthigh: float, fshin: float, ffoot: float
    ) -> float:
        """Return the mean of 16 links and the floor (at 0), in the order in which numpy adds.

        The model has a point-like link for every joint: one at x and y of each leg link, three at those of the torso.
        """
        return (2 * (((torso + bfoot) + (torso + fthigh)) + ((bthigh + fshin) + (bshin + ffoot))) + 0.0) / 17

    @property
    def alive(self) -> bool:
        """Return whether the torso is level and only the feet touch the floor."""
        _, fshin, fthigh, _, bshin, bthigh = self._values[-6:]
        return abs(self._values[7]) < 1.0 and not (fshin or fthigh or bshin or bthigh)


class BulletAnt(Robot):
    """The ant: four legs with two joints each. An episode ends when the torso is too low."""

    model = "ant.xml"
    observation_size = 28
    action_size = 8
    powers: ClassVar = {f"{joint}_{leg}": 2.5 * 100.0 for leg in (1, 2, 3, 4) for joint in ("hip", "ankle")}
    feet = ("front_left_foot", "front_right_foot", "left_back_foot", "right_back_foot")
    ends_when_fallen = True

    def _pose(self) -> Pose:
        torso, orientation = pybullet.getBasePositionAndOrientation(self._body, self._client)
        speed, _ = pybullet.getBaseVelocity(self._body, self._client)
        places = [state[0] for state in pybullet.getLinkStates(self._body, self._links, 0, 0, self._client)]
        places.insert(TORSO_AT, torso)
        xs, ys, _ = zip(*places, strict=True)
        return self._mean(xs), self._mean(ys), torso[2], orientation, speed

    @staticmethod
    def _mean(v: Numbers) -> float:
        """Return the mean of 21 parts and the floor (at 0), in the order in which numpy adds."""
        total = (((v[0] + v[8]) + (v[1] + v[9])) + ((v[2] + v[10]) + (v[3] + v[11]))) + (
            ((v[4] + v[12]) + (v[5] + v[13])) + ((v[6] + v[14]) + (v[7] + v[15]))
        )
        return (total + v[16] + v[17] + v[18] + v[19] + v[20] + 0.0) / 22

    @property
    def alive(self) -> bool:
        """Return whether the torso is high enough above the floor."""
        return self._height > 0.26


ROBOTS: dict[str, type[Robot]] = {"cheetah": BulletCheetah, "ant": BulletAnt}


class BulletEngine:
    """Makes the robot of a task; importing this module imports pybullet."""

    def __init__(self, task: PaperRobot):
        self._task = task

    def check(self) -> None:
        """Do nothing: pybullet was imported."""

    def walker(self, seed: int) -> "BulletWalker":
        """Return the robot in its own physics client, controlled step by step."""
        return BulletWalker(self._task, seed)

    def lacks_for_gpu(self) -> str:
        return 'engine "bullet" runs on CPUs only'


class BulletWalker:
    """A robot that is controlled step by step, from the same start every time."""

    step_seconds = TIME_STEP

    def __init__(self, task: PaperRobot, seed: int):
        self.robot, self._seed, self._axes = ROBOTS[task.robot](), seed, task.axes
        self._stops = task.terminate == "environment"
        self.limbs, self.close = self.robot.limbs, self.robot.close

    @property
    def position(self) -> tuple[float, ...]:
        """Return the present position, along the axes of the behaviour."""
        return self.robot.position[: self._axes]

    @property
    def finite(self) -> bool:
        return self.robot.finite

    def reseed(self, seed: int) -> None:
        self._seed = seed

    def reset(self) -> Singles:
        return self.robot.reset(self._seed)

    def step(self, action: Singles) -> tuple[Singles, bool]:
        try:
            observation, done = self.robot.step(action)
        except FloatingPointError:  # the action is NaN
            self.robot.position = (math.nan, math.nan, math.nan)
            return np.full(self.robot.observation_size, np.nan, np.float32), True
        return observation, done and (self._stops or not self.robot.finite)
