"""The physics clients of pybullet, reached without the robots that use them."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from ees_mpi.tasks.bullet.world import pybullet

Made = TypeVar("Made")
MAX_CLIENTS = 64  # clients that this process may have


class Client(NamedTuple):
    """One physics client, with one robot on a floor."""

    number: int

    @property
    def robot(self) -> int:
        """The body with the most joints: the floor has none."""
        bodies = range(pybullet.getNumBodies(self.number))
        return max(bodies, key=lambda body: pybullet.getNumJoints(body, self.number))

    def blow_up(self) -> None:
        """Put a NaN into the physics, as a diverging simulation would."""
        for joint in range(pybullet.getNumJoints(self.robot, self.number)):
            if pybullet.getJointInfo(self.robot, joint, self.number)[2] == pybullet.JOINT_REVOLUTE:
                pybullet.resetJointState(self.robot, joint, 0, np.nan, physicsClientId=self.number)
                return
        raise RuntimeError("the robot has no joint that turns")

    def move(self, position: tuple[float, float, float]) -> None:
        """Put the robot somewhere else, upright."""
        pybullet.resetBasePositionAndOrientation(self.robot, position, (0, 0, 0, 1), self.number)


def connected() -> set[int]:
    """Return the numbers of all clients of this process."""
    return {number for number in range(MAX_CLIENTS) if pybullet.isConnected(number)}


def opened(make: Callable[[], Made]) -> tuple[Made, Client]:
    """Make an object that opens one physics client; return both."""
    before = connected()
    made = make()
    (number,) = connected() - before
    return made, Client(number)
