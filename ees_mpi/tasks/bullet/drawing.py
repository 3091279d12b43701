"""Pictures and limbs of a Bullet robot. Bullet's software renderer draws pictures; it needs no screen."""

import os
from collections.abc import Sequence
from functools import cache
from xml.etree import ElementTree

import numpy as np

from ees_mpi.contracts import Pixels, View
from ees_mpi.outcomes import Floats
from ees_mpi.tasks.bullet.world import MODELS, World, pybullet

PITCH = -25.0  # degrees
LENS = 45.0  # degrees, from the lower edge of the picture to the upper
NEAR, FAR = 0.1, 200.0
DISTANCE = 3.6  # of the camera from the point that it looks at
HEIGHT = 0.4  # of the point that the camera looks at
LIGHTING = {
    "lightDirection": (-0.4, -0.5, 1.0),
    "shadow": 0,  # with shadows, drawing takes twice as long
    "lightAmbientCoeff": 0.65,
    "lightDiffuseCoeff": 0.45,
    "lightSpecularCoeff": 0.05,
}


class Camera:
    """A camera that looks along +y, with +x to the right, at the robot, at a fixed angle."""

    def __init__(self, view: View) -> None:
        self._view, self._point = view, (0.0, 0.0)
        self._lens = pybullet.computeProjectionMatrixFOV(LENS, view.width / view.height, NEAR, FAR)

    def picture(self, world: World, place: Sequence[float]) -> Pixels:
        """Draw the world as uint8[height, width, 3]; `place`: the robot's position, which the camera follows."""
        if np.isfinite(place).all():
            self._point = (float(place[0]), float(place[1]))
        target, size = (*self._point, HEIGHT), (self._view.height, self._view.width)
        matrix = pybullet.computeViewMatrixFromYawPitchRoll(target, DISTANCE, 0, PITCH, 0, 2)
        options = {**LIGHTING, "renderer": pybullet.ER_TINY_RENDERER, "physicsClientId": world.client}
        _, _, pixels, _, _ = pybullet.getCameraImage(size[1], size[0], matrix, self._lens, **options)
        return np.asarray(pixels, np.uint8).reshape(*size, 4)[..., :3]


Limb = tuple[str, Sequence[Sequence[float]], float]  # a link, the ends of a capsule's axis in its frame, the radius


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
