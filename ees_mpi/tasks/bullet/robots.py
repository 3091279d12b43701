"""The cheetah and the ant of the paper on raw pybullet.

Every observation, end and position has the same bits as in `HalfCheetahBulletEnv-v0` and `AntBulletEnv-v0` of
pybullet_envs_gymnasium. There is one exception: there, the floor is not a part of the robot in the first observation
of an environment, but it is in all later ones. Here it always is.
"""

from typing import ClassVar

from ees_mpi.tasks.bullet.robot import Numbers, Pose, Robot
from ees_mpi.tasks.bullet.world import pybullet

__all__ = ["BulletAnt", "BulletCheetah", "Robot"]

TORSO_AT = 1  # index of the torso among the ant's parts


class BulletCheetah(Robot):
    """The half cheetah: six joints, held in the plane y = 0. An episode never ends early."""

    name = "cheetah"
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
    ends_when_fallen = False
    parts = 17

    def _links_to_read(self, links: dict[str, int]) -> list[int]:
        return [links[name] for name in ("torso", "bthigh", "bshin", "bfoot", "fthigh", "fshin", "ffoot")]

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

    name = "ant"
    model = "ant.xml"
    observation_size = 28
    action_size = 8
    powers: ClassVar = {f"{joint}_{leg}": 2.5 * 100.0 for leg in (1, 2, 3, 4) for joint in ("hip", "ankle")}
    feet = ("front_left_foot", "front_right_foot", "left_back_foot", "right_back_foot")
    ends_when_fallen = True
    parts = 22

    def _links_to_read(self, links: dict[str, int]) -> list[int]:
        return list(links.values())

    def _pose(self) -> Pose:
        torso, orientation = pybullet.getBasePositionAndOrientation(self._body, self._client)
        speed, _ = pybullet.getBaseVelocity(self._body, self._client)
        states = pybullet.getLinkStates(self._body, self._links, 0, 0, self._client)
        xs = [state[0][0] for state in states]
        ys = [state[0][1] for state in states]
        x, y, z = torso
        xs.insert(TORSO_AT, x)
        ys.insert(TORSO_AT, y)
        return self._mean(xs), self._mean(ys), z, orientation, speed

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
